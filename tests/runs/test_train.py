"""Runs end in the same place however often they are interrupted."""

import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fdsm.atomic_io import BusyError, exclusive
from fdsm.data import Dataset
from fdsm.data.split import fixed_shuffle
from fdsm.recipes.ebm import EBM
from fdsm.runs.evaluate import evaluate
from fdsm.runs.reference import Reference, UntrustedRecipeError
from fdsm.runs.run import Run, RunError
from fdsm.runs.saved_model import open_trained
from fdsm.runs.train import Training, TrainingInterrupted, train
from fdsm.training import GradientStep, IterationEvent, NonFiniteLossError, checkpoint
from fdsm.training.loggers import records
from fdsm.typing import Step

from ..recipes.tiny import tiny
from .run_cases import TINY, interrupt_after, model, same, states, without_times

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _as_users_have_it() -> None:
    torch.set_default_dtype(torch.float32)


def begun(folder: Path, *overrides: str, seed: int = 0) -> Run:
    return Run.create(folder, replace(TINY, overrides=overrides), seed)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    torch.set_default_dtype(torch.float32)
    run = begun(tmp_path_factory.mktemp("whole") / "run")
    train(run)
    return run


@pytest.mark.parametrize("iteration", [1, 10, 17, 39])
def test_an_interrupted_run_ends_bit_for_bit_as_a_whole_one(
    iteration: int, whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begun(tmp_path / "run")
    with monkeypatch.context() as patch:
        interrupt_after(iteration, patch)
        with pytest.raises(
            TrainingInterrupted, match=rf"after iteration {iteration} of 40.*--resume"
        ):
            train(run)
    train(Run.open(run.folder, trust=True))
    assert same(states(run), states(whole))
    assert without_times(run) == without_times(whole)
    assert same(model(run), model(whole))


def test_a_run_that_died_after_its_checkpoint_forgets_the_rest(
    whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begun(tmp_path / "run")

    def die(self: Training, moment: IterationEvent) -> None:
        if moment.iteration == 27:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        original = Training._note
        patch.setattr(Training, "_note", lambda s, m: (original(s, m), die(s, m)))
        with pytest.raises(KeyboardInterrupt):
            train(run)
    assert records(run.folder / "metrics.jsonl")[-1]["iteration"] == 25
    train(Run.open(run.folder, trust=True))
    assert same(states(run), states(whole))
    assert without_times(run) == without_times(whole)


def test_random_layers_go_on_where_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = Reference(f"{HERE.parent / 'recipes' / 'tiny.py'}:dropping")
    whole = Run.create(tmp_path / "whole", reference)
    train(whole)
    run = Run.create(tmp_path / "run", reference)
    with monkeypatch.context() as patch:
        interrupt_after(17, patch)
        with pytest.raises(TrainingInterrupted):
            train(run)
    torch.manual_seed(99)
    train(Run.open(run.folder, trust=True))
    assert same(states(run), states(whole))
    often = Run.create(
        tmp_path / "often", replace(reference, overrides=("plan.validate_every=1",))
    )
    train(often)
    assert same(states(often)["model"], states(whole)["model"])
    kept = checkpoint.load(whole.folder / "model.safetensors")["held_out"]
    trained = open_trained(whole)
    assert torch.equal(trained.log_density(whole.recipe.data.load().test), kept)


def test_the_seed_decides_everything(whole: Run, tmp_path: Path) -> None:
    again, other = begun(tmp_path / "again"), begun(tmp_path / "other", seed=1)
    train(again)
    train(other)
    assert same(states(again), states(whole))
    assert not same(states(other)["model"], states(whole)["model"])


def test_looking_more_often_changes_nothing(whole: Run, tmp_path: Path) -> None:
    run = begun(tmp_path / "run", "plan.validate_every=3", "plan.checkpoint_every=7")
    train(run)
    assert same(states(run)["model"], states(whole)["model"])


def test_finished_runs_are_not_trained_again(whole: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Training, "go_on", lambda *_, **__: pytest.fail("trained again"))
    train(whole)


def test_only_a_few_checkpoints_are_kept(whole: Run) -> None:
    assert [path.stem for path in whole.checkpoints.numbered()] == ["00000040", "00000030"]


def test_the_record_says_what_was_run(whole: Run) -> None:
    config = whole.config
    assert config["recipe"] == TINY.recipe
    assert config["shape"] == [2]
    assert config["settings"]["objective"]["projection"] == {"class": "Sphere", "radius": 0.1}
    assert config["settings"]["data"]["density"]["scales"] == [0.5, 0.3]
    assert config["data"]["rows"] == {"train": 200, "validation": 20, "test": 20}
    assert config["parameters"] == sum(
        p.numel() for p in whole.build(torch.Size([2])).parameters()
    )
    assert {"fdsm", "torch", "python"} == config["versions"].keys()


def test_the_model_that_is_used_is_the_average(whole: Run) -> None:
    weights = dict(open_trained(whole).model.state_dict())
    assert same(weights, states(whole)["average"]["model"])
    assert not same(weights, states(whole)["model"])


def test_evaluation_is_written_and_repeatable(whole: Run) -> None:
    def silent(numbers: Iterable[int]) -> Iterable[int]:
        return numbers

    first = evaluate(whole, open_trained(whole), silent)
    second = evaluate(whole, open_trained(whole), silent)
    assert first == second == json.loads((whole.folder / "result.json").read_text())
    assert set(first["metrics"]) == {"exact_sm_loss", "fisher", "ood_auc_scrambled"}
    assert first["iterations"] == 40
    assert first["metrics"]["exact_sm_loss"]["settings"]["rows"] == 10


def test_a_loss_that_is_not_finite_keeps_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begun(tmp_path / "run", "optimizer.lr=1e30")
    with pytest.raises(NonFiniteLossError, match=r"iteration \d+: .*there is no checkpoint"):
        train(run)
    good = begun(tmp_path / "good")
    original = type(tiny).step

    def poisoned(self: EBM, model: nn.Module, data: Dataset) -> Step:
        step = original(self, model, data)
        assert isinstance(step, GradientStep)
        loss = step.loss
        step.loss = lambda *a: loss(*a) * (float("nan") if step.iteration == 25 else 1)
        return step

    monkeypatch.setattr(type(tiny), "step", poisoned)
    with pytest.raises(NonFiniteLossError, match=r"iteration 26: .*good checkpoint is .*00000020"):
        train(good)
    monkeypatch.undo()
    torch.set_default_dtype(torch.float32)
    train(Run.open(good.folder, trust=True))
    assert (good.folder / "model.safetensors").exists()


def test_a_damaged_checkpoint_costs_iterations_not_the_run(whole: Run, tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    train(run)
    last = run.checkpoints.numbered()[0]
    last.write_bytes(last.read_bytes()[: -len(last.read_bytes()) // 3])
    (run.folder / "model.safetensors").unlink()
    with pytest.warns(UserWarning, match="going back to the one before"):
        train(Run.open(run.folder, trust=True))
    assert same(states(run), states(whole))


def test_folders_are_not_overwritten_and_code_is_not_executed(whole: Run, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"holds a run already: continue it with .*--resume"):
        Run.create(whole.folder, TINY)
    with pytest.raises(UntrustedRecipeError, match=r"code in .*tiny.py: add --trust"):
        Run.open(whole.folder)
    with pytest.raises(RunError, match=r"it has no config.json"):
        Run.open(tmp_path)
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(RunError, match=r"config.json is damaged"):
        Run.open(tmp_path)
    with pytest.raises(RunError, match=r"not finished: `fdsm train --resume"):
        open_trained(begun(tmp_path / "new"))


def test_what_was_best_is_remembered_over_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [4.0, 3.0, 1.0, 2.0, 2.0, 2.0]
    monkeypatch.setattr(EBM, "validate", lambda *_: {"loss": values.pop(0)})
    run = begun(tmp_path / "run", "plan.validate_every=5", "plan.patience=15")
    with monkeypatch.context() as patch:
        interrupt_after(17, patch)
        with pytest.raises(TrainingInterrupted):
            train(run)
    train(Run.open(run.folder, trust=True))
    assert "than 1 of iteration 10 in 15" in states(run)["ended"]


@pytest.mark.parametrize("missing", ["config.json", "checkpoints", "model.safetensors"])
def test_what_is_left_of_a_run_is_not_taken_for_a_new_one(missing: str, tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    train(run)
    gone = run.folder / missing
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    with pytest.raises(RunError, match="holds a run already"):
        begun(run.folder, seed=9)


def test_a_run_does_not_go_on_with_another_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.py"
    recipes = str(HERE.parent / "recipes")
    path.write_text(f"import sys\nsys.path.append({recipes!r})\nfrom tiny import tiny as mine\n")
    run = Run.create(tmp_path / "run", Reference(f"{path}:mine"))
    with monkeypatch.context() as patch:
        interrupt_after(12, patch)
        with pytest.raises(TrainingInterrupted, match=r"--resume .* --trust"):
            train(run)
    path.write_text(
        path.read_text() + "from dataclasses import replace\n"
        "mine = replace(mine, optimizer=replace(mine.optimizer, lr=0.5))\n"
    )
    with pytest.raises(RunError, match=r"optimizer.lr: 0.005 -> 0.5"):
        train(Run.open(run.folder, trust=True))


def test_a_run_does_not_go_on_with_other_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table.csv"
    rows = torch.randn(100, 2)
    path.write_text("\n".join(f"{a},{b}" for a, b in rows.tolist()))
    settings = ("plan.iterations=20", "plan.batch=16", "plan.checkpoint_every=5", "sm_eval_rows=4")
    reference = Reference("density", data=str(path), overrides=settings)
    run = Run.create(tmp_path / "run", reference)
    with monkeypatch.context() as patch:
        interrupt_after(7, patch)
        with pytest.raises(TrainingInterrupted):
            train(run)
    before = path.read_text()
    path.write_text(before.replace("0.", "7."))
    with pytest.raises(RunError, match="have changed since it began: sha256"):
        train(Run.open(run.folder))
    path.write_text(before)
    train(Run.open(run.folder))


def test_early_stopping_before_the_first_record_is_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EBM, "validate", lambda *_: {"loss": float("nan")})
    settings = ("plan.validate_every=5", "plan.patience=10", "plan.log_every=50")
    run = begun(tmp_path / "run", *settings, "plan.num_samples=0")
    train(run)
    result = evaluate(run, open_trained(run), lambda numbers: numbers)
    assert result["iterations"] == 10
    assert result["milliseconds_per_iteration"] > 0
    assert all(r["validation"]["loss"] is None for r in records(run.folder / "metrics.jsonl"))


@pytest.mark.parametrize(
    ("setting", "message"),
    [("data.validation=0", "there are no validation rows"), ("data.test=0", "no test rows")],
)
def test_splits_that_are_needed_are_asked_for_at_once(
    setting: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "table.csv"
    path.write_text("\n".join(f"{i},{i * i % 7}" for i in range(50)))
    run = Run.create(tmp_path / "run", Reference("density", data=str(path), overrides=(setting,)))
    with pytest.raises(ValueError, match=message):
        train(run)


def test_two_processes_do_not_train_one_run(whole: Run, tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    run.folder.mkdir()
    with exclusive(run.folder), pytest.raises(BusyError, match="another process"):
        train(run)
    train(run)
    assert same(states(run), states(whole))


def test_early_stopping_keeps_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = iter([4.0, 3.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0])
    monkeypatch.setattr(type(tiny), "validate", lambda *_: {"loss": next(values)})
    run = begun(tmp_path / "run", "plan.validate_every=5", "plan.patience=10")
    train(run)
    state = states(run)
    assert state["iteration"] == 20
    assert "no better loss than 1 of iteration 10" in state["ended"]
    best = checkpoint.load(run.checkpoints.best)["model"]
    assert same(dict(open_trained(run).model.state_dict()), best)


def test_evaluation_takes_test_rows_in_mixed_order_and_no_others(
    whole: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Dataset] = []

    def note(
        self: EBM, model: nn.Module, data: Dataset, generator: torch.Generator
    ) -> dict[str, Any]:
        seen.append(data)
        return {}

    monkeypatch.setattr(EBM, "evaluate", note)
    evaluate(whole, open_trained(whole), lambda numbers: numbers)
    stored = whole.recipe.data.load()
    torch.testing.assert_close(seen[0].test, fixed_shuffle(stored.test))
    torch.testing.assert_close(seen[0].train, stored.train)
