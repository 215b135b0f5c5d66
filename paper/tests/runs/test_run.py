"""Run folders: created once, and rebuilt from config.json alone."""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fdsm.serialize import to_json
from paper.commands.options import resume_command
from paper.data import ImageArray
from paper.recipes import EBM, MLP, TrainingPlan
from paper.runs import (
    Run,
    RunError,
    SavedModel,
    UnfinishedRunError,
    UntrustedFileError,
    recipe_from_file,
    train,
)

from ..recipes.recipe_cases import silent, tiny
from .run_cases import TINY, array_recipe, start_tiny, write_array


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A trained run of an array of images."""
    torch.set_default_dtype(torch.float32)
    folder = tmp_path_factory.mktemp("array")
    run = Run.create(folder / "run", array_recipe(write_array(folder / "a.npy")), seed=4)
    train(run)
    return run


def copy_with(run: Run, folder: Path, **changes: object) -> Path:
    """Return a copy of the folder of a run with other values in its config.json."""
    shutil.copytree(run.folder, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    return folder


def test_opened_run_is_the_run_that_was_created(trained: Run) -> None:
    opened = Run.open(trained.folder)
    expected = replace(trained.recipe, data=replace(trained.recipe.data, path=_path(trained)))  # type: ignore[type-var]
    assert opened.recipe == expected
    assert (opened.seed, opened.device, opened.origin) == (4, "cpu", {})
    assert opened.is_trained
    assert Run.open(trained.folder, device="meta").device == "meta"


def _path(run: Run) -> str:
    assert isinstance(run.recipe.data, ImageArray)
    return str(run.recipe.data.path)


def test_changed_defaults_in_the_code_do_not_change_a_run(
    trained: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = torch.randn(20, 1, 2, 2, generator=torch.Generator().manual_seed(1))
    saved = SavedModel.load(Run.open(trained.folder))
    before, samples = saved.log_density(rows), saved.sample(5, silent)
    other = {"widths": (3, 3), "network": MLP((5,)), "batch": 7, "iterations": 1, "noise_std": 9.0}
    for kind in (MLP, EBM, TrainingPlan, ImageArray):
        assert kind.__init__.__defaults__
        names = kind.__init__.__code__.co_varnames[1 : kind.__init__.__code__.co_argcount]
        defaults = dict(
            zip(names[-len(kind.__init__.__defaults__) :], kind.__init__.__defaults__, strict=True)
        )
        changed = tuple(other.get(name, value) for name, value in defaults.items())
        monkeypatch.setattr(kind.__init__, "__defaults__", changed)
    assert MLP().widths == (3, 3)
    opened = Run.open(trained.folder)
    assert opened.recipe.plan.batch == tiny.plan.batch
    again = SavedModel.load(opened)
    assert torch.equal(again.log_density(rows), before)
    assert torch.equal(again.sample(5, silent), samples)


def test_folder_of_a_run_is_not_used_again(tmp_path: Path) -> None:
    run = start_tiny(tmp_path / "run")
    assert not run.folder.exists()
    train(run)
    for missing in ("nothing", "config.json", "checkpoints", "model.safetensors"):
        folder = shutil.copytree(run.folder, tmp_path / missing)
        gone = folder / missing
        if gone.is_dir():
            shutil.rmtree(gone)
        else:
            gone.unlink(missing_ok=True)
        with pytest.raises(RunError, match=f"{folder} already holds a run"):
            start_tiny(folder, seed=9)


def test_model_of_an_unfinished_run_is_refused(tmp_path: Path) -> None:
    run = start_tiny(tmp_path / "run")
    with pytest.raises(
        UnfinishedRunError, match=r"the training of .*run has not finished$"
    ) as error:
        SavedModel.load(run)
    assert error.value.run == run


def test_recipe_of_a_file_is_only_executed_with_trust(tmp_path: Path) -> None:
    marker, path = tmp_path / "executed", tmp_path / "mine.py"
    path.write_text(
        f"import pathlib, sys\npathlib.Path({str(marker)!r}).touch()\n"
        f"sys.path.append({str(Path(__file__).parents[3])!r})\n"
        "from paper.tests.recipes.recipe_cases import tiny as mine\n"
    )
    recipe, origin = recipe_from_file(f"{path}:mine")
    run = Run.create(tmp_path / "run", recipe, origin=origin)
    train(run)
    assert resume_command(run).endswith(" --trust")
    marker.unlink()
    with pytest.raises(UntrustedFileError, match=r"the recipe of .* is code in .*mine.py$"):
        Run.open(run.folder)
    assert not marker.exists()
    assert Run.open(run.folder, trust=True).recipe == recipe
    assert marker.exists()


def test_recorded_settings_win_over_a_changed_recipe_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    source = (
        "from dataclasses import dataclass\n"
        "from torch import nn\n"
        "from paper.tests.recipes.recipe_cases import tiny\n"
        "from dataclasses import replace\n\n"
        "@dataclass(frozen=True)\n"
        "class Linear:\n"
        "    width: int = 4\n"
        "    def build(self, shape):\n"
        "        return nn.Sequential(nn.Linear(shape[0], self.width), nn.Softplus(),\n"
        "                             nn.Linear(self.width, 1), nn.Flatten(0))\n\n"
        "mine = replace(tiny, network=Linear())\n"
    )
    path.write_text(source)
    recipe, origin = recipe_from_file(f"{path}:mine")
    run = Run.create(tmp_path / "run", recipe, origin=origin)
    rows = torch.ones(3, 2)
    before = train(run).log_density(rows)
    path.write_text(source.replace("width: int = 4", "width: int = 5").replace("Linear()", "None"))
    opened = Run.open(run.folder, trust=True)
    assert to_json(opened.recipe) == to_json(recipe)
    assert torch.equal(SavedModel.load(opened).log_density(rows), before)
    path.write_text(source.replace("class Linear", "class Other").replace("Linear()", "Other()"))
    with pytest.raises(RunError, match=r"mine\.py has changed, or .*no recipe_file.mine.Linear"):
        Run.open(run.folder, trust=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "config.json is damaged"),
        ("[1, 2]", "config.json is damaged: it holds a list, not an object"),
        ("null", "config.json is damaged: it holds a NoneType, not an object"),
        (
            json.dumps({"recipe": "deep_ebm/DSM", "versions": {"fdsm": "0.1.0"}}),
            r"was written by fdsm 0\.1\.0, whose config.json has another layout",
        ),
        (json.dumps({"format": 3, "versions": {"fdsm": "9.1.0"}}), r"written by fdsm 9\.1\.0"),
        (json.dumps({"format": 1}), "written by an unknown version of fdsm"),
        (json.dumps({"format": 1, "versions": ["?"]}), "written by an unknown version of fdsm"),
        (json.dumps({"format": 2}), r"config.json is damaged: .*seed"),
        (json.dumps({"format": 2, "seed": 0, "device": "cpu"}), r"damaged: .*recipe"),
        ('{"format": 2, "seed": 1e400, "device": "cpu", "recipe": {}}', "damaged: .*infinity"),
        (json.dumps({"format": 2, "seed": "x", "device": "cpu", "recipe": {}}), "damaged: .*x"),
        (json.dumps({"format": 2, "seed": 0, "device": 1, "origin": 3, "recipe": {}}), "damaged"),
    ],
)
def test_damaged_and_foreign_configs_are_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(RunError, match=message):
        Run.open(tmp_path)


def test_damaged_config_of_this_version_does_not_blame_the_version(
    trained: Run, tmp_path: Path
) -> None:
    folder = copy_with(trained, tmp_path / "run", format=7)
    with pytest.raises(RunError, match=r"config.json is damaged: format is 7$"):
        Run.open(folder)


def test_config_that_cannot_be_opened_names_another_version_that_wrote_it(
    trained: Run, tmp_path: Path
) -> None:
    changes = {"recipe": {}, "versions": {"fdsm": "0.1.9"}}
    folder = copy_with(trained, tmp_path / "run", **changes)
    with pytest.raises(
        RunError, match=r"cannot be opened by .*: it was written by fdsm 0\.1\.9: "
    ):
        Run.open(folder)


@pytest.mark.parametrize("name", ["checkpoints", "tensorboard"])
def test_links_out_of_the_folder_are_refused(name: str, trained: Run, tmp_path: Path) -> None:
    """Training would write through them."""
    outside, new = tmp_path / "outside", tmp_path / "new"
    outside.mkdir()
    new.mkdir()
    folder = Path(shutil.copytree(trained.folder, tmp_path / "run"))
    if (folder / name).is_dir():
        shutil.rmtree(folder / name)
    for place in (folder, new):
        (place / name).unlink(missing_ok=True)
        (place / name).symlink_to(outside)
    with pytest.raises(RunError, match=rf"run/{name} is a link to .*outside, outside the run"):
        Run.open(folder)
    with pytest.raises(RunError, match=rf"new/{name} is a link to .*outside, outside the run"):
        start_tiny(new)
    assert not list(outside.iterdir())


def test_folder_without_a_config_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"is not the folder of a run: it has no config.json"):
        Run.open(tmp_path)


def _without(record: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != name}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: {"class": "os.system", "command": "touch executed"}, "os.system is not part"),
        (lambda r: r | {"network": {"class": "builtins.eval"}}, "builtins.eval is not part"),
        (lambda r: r | {"network": {"import": "torch.load"}}, "torch.load is not part"),
        (lambda r: r | {"network": {"class": "side_effects.Network"}}, "is not part"),
        (lambda r: r | {"network": {"class": "fdsm.models.NICE"}}, "not a class of settings"),
        (lambda r: r | {"wdith": 3}, "unknown field 'wdith'"),
        (lambda r: _without(r, "objective"), "missing field 'objective'"),
        (lambda r: r | {"plan": 3}, "EBM.plan must be TrainingPlan, got 3"),
        (lambda r: r | {"network": r["plan"]}, "EBM.network must be .*Network"),
        (lambda r: r["plan"], "is not a recipe"),
        (lambda r: {}, "is not a recipe"),
        (lambda r: [r], "is not a recipe"),
        (lambda r: "deep_ebm/DSM", "is not a recipe"),
        (lambda r: None, "is not a recipe"),
        (lambda r: r | {"plan": r["plan"] | {"batch": 0}}, "plan.batch must be at least 1"),
    ],
)
def test_configs_with_other_recipes_are_refused_and_nothing_is_executed(
    change: Callable[[Any], object],
    message: str,
    trained: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "side_effects.py").write_text("open('executed', 'w')")
    monkeypatch.setattr(os, "system", lambda *_: pytest.fail("a command was executed"))
    folder = copy_with(trained, tmp_path / "run", recipe=change(trained.config["recipe"]))
    with pytest.raises(RunError, match=message) as error:
        Run.open(folder)
    path = re.escape(str(folder / "config.json"))
    assert re.match(
        rf"{path} cannot be opened by \S+: it was edited or damaged: ", str(error.value)
    )
    assert not (tmp_path / "executed").exists()


def test_run_with_moved_data_can_be_pointed_to_them(tmp_path: Path) -> None:
    path = write_array(tmp_path / "a.npy")
    run = Run.create(tmp_path / "run", array_recipe(path))
    train(run)
    moved = path.rename(tmp_path / "moved.npy")
    opened = Run.open(run.folder)
    source = replace(opened.recipe.data, path=str(moved))  # type: ignore[type-var]
    opened.with_source(source).require_same_data(source.load())
    other = ImageArray(write_array(tmp_path / "other.npy", seed=1))
    with pytest.raises(RunError, match="have changed since training started: sha256"):
        opened.require_same_data(other.load())


def test_generators_depend_on_the_seed_and_the_purpose(tmp_path: Path) -> None:
    first, other = start_tiny(tmp_path), start_tiny(tmp_path, seed=1)
    draw = lambda generator: torch.rand(1, generator=generator).item()
    values = [draw(run.generator(name)) for run in (first, other) for name in ("a", "b")]
    assert len(set(values)) == 4
    assert draw(first.generator("a")) == values[0]


def test_seed_decides_the_initial_weights_and_leaves_the_global_generator(tmp_path: Path) -> None:
    state = torch.get_rng_state()
    first, again, other = (
        start_tiny(tmp_path, seed=seed).build(torch.Size([2])).state_dict() for seed in (0, 0, 1)
    )
    name = "network.1.weight"
    assert torch.equal(first[name], again[name])
    assert not torch.equal(first[name], other[name])
    assert torch.equal(torch.get_rng_state(), state)


def test_reference_of_the_tiny_recipe_loads() -> None:
    recipe, origin = recipe_from_file(TINY)
    assert to_json(recipe) == to_json(tiny)
    assert origin["name"] == "tiny"


def test_names_of_a_stranger_cannot_control_a_terminal(tmp_path: Path) -> None:
    recipe = replace(tiny, name="a\x1b[31m\u202eb")
    assert Run.create(tmp_path / "run", recipe).name == "a\ufffd[31m\ufffdb"
