"""The command line as a new user meets it."""

import csv
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from fdsm.cli.training import _named
from fdsm.runs.reference import Reference
from PIL import Image

import fdsm
from fdsm.cli import main
from fdsm.data import DataError, Dataset, Digits
from fdsm.paper.tables import table2 as deep_ebm

from ..recipes.tiny import tiny

ROOT = Path(fdsm.__file__).parents[1]
TINY = f"{Path(__file__).parents[1] / 'recipes' / 'tiny.py'}:tiny"
QUICK = ["--set", "plan.iterations=20", "--set", "plan.batch=16", "--set", "sm_eval_rows=8"]
COLD = [
    "--set", "tempering.schedule.hold=2", "--set", "tempering.schedule.anneal=2",
    "--set", "tempering.schedule.cool=2",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _as_users_have_it() -> None:
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_default_dtype(torch.float32)
    folder = tmp_path_factory.mktemp("run") / "tiny"
    main(["train", TINY, "--out", str(folder)])
    return folder


@pytest.fixture
def table(tmp_path: Path) -> Path:
    x = np.random.default_rng(0).normal(size=(200, 3)) * [1, 10, 100] + [0, 5, -300]
    path = tmp_path / "measurements.csv"
    np.savetxt(path, x, delimiter=",", header="length,weight,height", comments="")
    return path


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (40, 12, 10, 3), dtype=np.uint8)
    for i, image in enumerate(pixels):
        Image.fromarray(image).save(folder / f"{i:02d}.png")
    return folder


def failed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    return exit_.value.code, capsys.readouterr().err


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    main([*arguments, "--json"])
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value


def test_help_lists_the_commands_without_importing_torch() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "fdsm", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in ("list", "train", "sample", "evaluate", "score", "check", "report", "demo"):
        assert f"• {name} " in done.stdout
    imported = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert "fdsm.cli" in imported
    assert not {"torch", "numpy", "matplotlib", "PIL", "jinja2"} & imported


def test_a_reader_who_leaves_is_no_failure() -> None:
    command = [sys.executable, "-m", "fdsm", "list", "--json"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--version"])
    assert capsys.readouterr().out == f"fdsm {fdsm.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "train"),
        (["train", "--sed", "1", "digits"], "--seed"),
        (["train", "digits", "--seed", "many"], "many"),
        ([], "demo"),
        (["train"], "name a recipe, or a run to --resume"),
        (["train", "digits", "--resume", "x"], "name a recipe, or a run to --resume"),
        (["train", "digts"], "Did you mean digits?"),
        (["train", "digits/DMS"], "Did you mean DSM?"),
        (["train", "digits", "--set", "plan.iteration=3"], "Did you mean iterations?"),
        (["train", "digits", "--set", "plan.iterations=x"], "it takes int, and is now 3500"),
        (["train", "nowhere.py:recipe"], "there is no file"),
        (
            ["train", "--resume", "x", "--set", "a=b"],
            "keeps its data, settings, seed, scale and folder",
        ),
        (["train", "digits", "--device", "cuda:99"], "torch cannot compute on 'cuda:99' here"),
        (["train", "digits", "--device", "meta"], "torch cannot compute on 'meta' here"),
        (["train", "digits", "--device", "nonsense"], "torch cannot compute on 'nonsense' here"),
        (["train", "digits", "--threads", "0"], "--threads must be at least 1, but is 0"),
        (["report"], "name at least one folder of a run"),
        (["reproduce", "tabel1"], "Did you mean table1?"),
        (["reproduce", "table1", "--seeds", "0"], "--seeds must be at least 1, but is 0"),
    ],
)
def test_mistakes_of_the_caller_are_explained(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = failed(arguments, capsys)
    assert code == 2
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "deep_ebm", "--data", "nothing.csv"], "nothing.csv"),
        (["train", "--resume", "nowhere"], "is not the folder of a run: it has no config.json"),
        (["sample", "nowhere"], "is not the folder of a run"),
        (["report", "nowhere"], "there is no folder nowhere"),
    ],
)
def test_what_is_not_there_is_named(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = failed(arguments, capsys)
    assert code == 1
    assert message in error
    assert "Traceback" not in error


def test_list_names_recipes_that_can_be_trained(capsys: pytest.CaptureFixture[str]) -> None:
    main(["list"])
    shown = capsys.readouterr().out
    assert "digits/FD-DSM" in shown
    settings = printed(["list", "nice_mnist", "--scale", "paper"], capsys)
    assert settings["nice_mnist/FD-SSM"]["hidden"] == 1000
    assert settings["nice_mnist/FD-SSM"]["objective"]["projection"]["radius"] == pytest.approx(0.1)


def test_train_leaves_everything_and_does_not_do_it_twice(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"config.json", "metrics.jsonl", "checkpoints", "model.safetensors", "result.json"}
    assert names <= {path.name for path in run.iterdir()}
    before = (run / "model.safetensors").read_bytes()
    code, error = failed(["train", TINY, "--out", str(run)], capsys)
    assert code == 1
    assert "holds a run already" in error
    result = printed(["train", "--resume", str(run), "--trust"], capsys)
    assert result["run"] == str(run)
    assert result["metrics"].keys() == {"exact_sm_loss", "fisher", "ood_auc_scrambled"}
    assert (run / "model.safetensors").read_bytes() == before


def test_code_in_a_run_folder_is_not_executed_unasked(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["sample", str(run)], ["evaluate", str(run)], ["check", str(run)]):
        code, error = failed(command, capsys)
        assert code == 2
        assert "add --trust to execute it" in error


def test_samples_are_repeatable_and_differ_by_seed(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        main([
            "sample",
            str(run),
            "--trust",
            "-n",
            "5",
            "--seed",
            str(seed),
            "--out",
            str(tmp_path / name),
        ])
        arrays.append(np.load(tmp_path / name / "samples.npy"))
    assert arrays[0].shape == (5, 2)
    assert np.array_equal(arrays[0], arrays[1])
    assert not np.array_equal(arrays[0], arrays[2])
    code, error = failed(["sample", str(run), "--trust", "-n", "0"], capsys)
    assert code == 2
    assert "at least 1, but is 0" in error


def test_check_prints_the_report_of_the_core(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["check", str(run), "--trust"])
    text = capsys.readouterr().out
    assert "parameter gradient, angle" in text
    assert "Taylor(fallback=Autodiff())" in text
    report = printed(["check", str(run), "--trust"], capsys)
    assert report["reference"] == "Taylor(fallback=Autodiff())"
    assert report["step"] == pytest.approx(0.1)
    assert 0 < report["angle"] < 5


def test_the_report_is_one_page(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "pages" / "report.html"
    main(["report", str(run.parent), "--out", str(out), "--title", "What I learnt"])
    page = out.read_text(encoding="utf-8")
    assert "What I learnt" in page
    assert "Learnt densities on the plane" in page
    assert 'src="http' not in page


def test_a_table_of_ones_own_from_training_to_scores(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    main(["train", "deep_ebm", "--data", str(table), "--out", str(out), *QUICK, *COLD])
    assert json.loads((out / "config.json").read_text())["data"]["columns"] == [
        "length", "weight", "height",
    ]  # fmt: skip
    samples = np.load(out / "samples.npy")
    assert samples.shape == (1000, 3)
    new = tmp_path / "new.csv"
    new.write_text("height,name,length,weight\n-300,a,0,5\n-300,b,50,5\n", encoding="utf-8")
    table.unlink()
    summary = printed(["score", str(out), str(new)], capsys)
    assert summary["rows"] == 2
    with (out / "scores.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["row"] for row in rows] == ["0", "1"]
    assert all(0 <= float(row["tail"]) <= 1 for row in rows)
    assert float(rows[1]["typicality"]) > float(rows[0]["typicality"])
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("length,weight\n1,2\n3,4\n", encoding="utf-8")
    code, error = failed(["score", str(out), str(wrong)], capsys)
    assert code == 1
    assert "height" in error


def test_a_folder_of_images_of_ones_own_from_training_to_scores(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    small = ["--set", "data.size=8", "--set", "network.image.width=2"]
    arguments = ["train", "deep_ebm", "--data", str(pictures), "--out", str(out)]
    main([*arguments, *small, *QUICK, *COLD, "--set", "plan.num_samples=4"])
    assert np.load(out / "samples.npy").shape == (4, 3, 8, 8)
    with Image.open(out / "samples.png") as picture:
        assert picture.mode == "RGB"
    main(["score", str(out), str(pictures), "--out", str(tmp_path / "scores.csv")])
    with (tmp_path / "scores.csv").open(encoding="utf-8") as file:
        names = [row["row"] for row in csv.DictReader(file)]
    assert names == [f"{i:02d}.png" for i in range(40)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["deep_ebm", "TABLE", "plan.batch=1000"],
            "a batch of 1000 cannot be taken from 160 rows",
        ),
        (["deep_ebm", "PICTURES", "data.size=12"], "height and width multiples of 8"),
        (["deep_ebm", "TABLE", "optimizer.lr=1e30"], "Likely causes: a learning rate"),
        (["dkef_uci", "PICTURES"], "kernel families are for rows of numbers"),
        (["dkef_uci", "TABLE", "inducing=1000"], "choose fewer (`--set inducing=80`)"),
        (["ncsn", "TABLE"], "this network is for images"),
    ],
)
def test_what_does_not_fit_is_explained_and_can_be_tried_again(
    arguments: list[str], message: str, table: Path, pictures: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    recipe, data, *settings = arguments
    path = {"TABLE": table, "PICTURES": pictures}[data]
    command = ["train", recipe, "--data", str(path), "--out", str(tmp_path / "run")]
    changed = [part for setting in settings for part in ("--set", setting)]
    for _ in range(2):
        code, error = failed([*command, *changed], capsys)
        assert code == 1
        assert message in error
        assert "Traceback" not in error
    code, error = failed(["sample", str(tmp_path / "run")], capsys)
    assert code == 1
    assert "is not finished" in error or "is not the folder of a run" in error


def test_one_of_several_arrays_is_chosen_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "two.npz", tmp_path / "run"
    rows = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    np.savez(path, x=rows, y=np.zeros((60, 8, 8)))
    arguments = ["train", "deep_ebm", "--data", str(path), "--out", str(out)]
    code, error = failed([*arguments, *QUICK], capsys)
    assert code == 1
    assert "--set data.key=…" in error
    assert not out.exists()
    main([*arguments, *QUICK, *COLD, "--set", "data.key=x", "--set", "plan.num_samples=2"])
    assert "Array: 48 + 6 + 6 rows of shape (2,)" in capsys.readouterr().err
    assert np.load(out / "samples.npy").shape == (2, 2)


@pytest.mark.parametrize(
    ("recipe", "scale", "folder"),
    [
        ("digits/FD-DSM", "cpu", "digits/FD-DSM"),
        ("deep_ebm", "paper", "paper/deep_ebm"),
        ("../somewhere/recipes.py:mine", "cpu", "recipes/mine"),
        ("/absolute/recipes.py:mine", "cpu", "recipes/mine"),
    ],
)
def test_runs_are_kept_under_the_name_of_their_recipe(
    recipe: str, scale: Literal["cpu", "paper"], folder: str
) -> None:
    assert _named(Reference(recipe, scale)) == Path(folder)


def test_an_autoencoder_samples_but_does_not_score(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, settings = str(tmp_path / "run"), ["plan.iterations=2", "plan.batch=8", "data.size=8"]
    settings += ["likelihood_rows=1", "temperatures=3", "plan.num_samples=2"]
    changed = [part for setting in settings for part in ("--set", setting)]
    main(["train", "autoencoder_mnist", "--data", str(pictures), "--out", out, *changed])
    main(["sample", out, "-n", "3"])
    assert np.load(tmp_path / "run" / "samples" / "samples.npy").shape == (3, 3, 8, 8)
    code, error = failed(["score", out, str(pictures)], capsys)
    assert code == 1
    assert "has no log-density that can be computed" in error


def test_the_demo_compares_five_methods_on_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["demo", "--out", str(tmp_path), "--iterations", "2"])
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("DSM", "FD-DSM", "SSM", "FD-SSM"))
    assert (tmp_path / "report.html").exists()
    before = (tmp_path / "FD-DSM" / "0" / "model.safetensors").read_bytes()
    main(["demo", "--out", str(tmp_path), "--iterations", "2"])
    assert (tmp_path / "FD-DSM" / "0" / "model.safetensors").read_bytes() == before


def test_reproduce_lists_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    main(["reproduce"])
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("table1", "table6", "figure1", "figure4", "theorem2"))


def test_a_table_is_reproduced_beside_the_published_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [replace(tiny, name=name) for name in ("FD-SSM", "SSM")]
    monkeypatch.setattr(deep_ebm, "CPU", tuple(rows))
    arguments = ["reproduce", "table2", "--seeds", "1", "--out", str(tmp_path)]
    main(arguments)
    shown = " ".join(capsys.readouterr().out.split())
    assert "FD-SSM" in shown
    assert "-3.33e7" in shown or "-33,300,000" in shown or "-3.330e7" in shown
    assert (tmp_path / "table2.html").exists()
    before = (tmp_path / "table2/SSM/0/result.json").read_bytes()
    main([*arguments, "--resume"])
    assert (tmp_path / "table2/SSM/0/result.json").read_bytes() == before
    code, error = failed([*arguments, "--no-resume"], capsys)
    assert code == 2
    assert "holds table2 already" in error


def test_rows_that_cannot_be_made_are_named_in_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(self: Digits) -> Dataset:
        raise DataError("there is no such data")

    rows = [replace(tiny, name="SSM"), replace(tiny, name="FD-SSM", data=Digits())]
    monkeypatch.setattr(Digits, "load", absent)
    monkeypatch.setattr(deep_ebm, "CPU", tuple(rows))
    code, error = failed(["reproduce", "table2", "--seeds", "1", "--out", str(tmp_path)], capsys)
    assert code == 1
    assert "deep_ebm/FD-SSM: there is no such data" in error
    assert (tmp_path / "table2/SSM/0/result.json").exists()
