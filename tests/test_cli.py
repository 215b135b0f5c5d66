"""The command line answers quickly, writes what it says and loses nothing."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.image import imread

import fdsm
from fdsm.cli import main
from fdsm.report.density import figure

ROOT = Path(fdsm.__file__).parents[1]
FILES = ("density.npz", "density.png", "result.json")


def shell(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "importtime", "-m", "fdsm", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_help_lists_the_commands_without_importing_torch() -> None:
    done = shell("--help")
    assert done.returncode == 0
    assert "demo" in done.stdout
    imported = [line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()]
    assert "fdsm.cli" in imported
    assert not {"torch", "numpy", "matplotlib"} & set(imported)


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--version"])
    assert capsys.readouterr().out == f"fdsm {fdsm.__version__}\n"


@pytest.mark.parametrize(
    "arguments", [["frobnicate"], ["demo", "--frobnicate"], ["demo", "--seed", "many"], []]
)
def test_what_is_not_understood_is_an_error(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert (arguments[-1] if arguments else "demo") in capsys.readouterr().err


def test_demo_leaves_numbers_and_a_figure_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a" / "b"
    main(["demo", "--out", str(out), "--seed", "3", "--iterations", "4"])
    assert sorted(path.name for path in out.iterdir()) == sorted(FILES)

    result = json.loads((out / "result.json").read_text())
    assert result["seed"] == 3
    assert result["settings"]["iterations"] == 4
    assert result["versions"] == {"fdsm": fdsm.__version__, "torch": torch.__version__}
    assert list(result["methods"]) == ["SSM", "FD-SSM", "FD-DSM"]
    shown = capsys.readouterr().out
    assert all(str(out / name) in shown.replace("\n", "") for name in FILES)
    with np.load(out / "density.npz") as arrays:
        cell = np.diff(arrays["axis"])[0] ** 2
        for name, numbers in result["methods"].items():
            assert arrays[name].sum() * cell == pytest.approx(1, rel=1e-3)
            assert numbers["fisher_before"] == numbers["curve"][0]["fisher"]
            assert numbers["fisher_after"] == numbers["curve"][-1]["fisher"]
            assert numbers["fisher_after"] < numbers["fisher_before"]
            assert f"{numbers['milliseconds_per_iteration']:.2f}" in shown
            assert f"{numbers['fisher_after']:.3f}" in shown
            assert f"{numbers['kl']:.4f}" in shown

    titles = [panel.get_title() for panel in figure(out).axes]
    for title, (name, numbers) in zip(titles[3:], result["methods"].items(), strict=True):
        assert title.startswith(f"{name}\n")
        assert f"KL {numbers['kl']:.3f}" in title
    picture = imread(out / "density.png")
    assert picture.shape == (1104, 1536, 4)
    assert picture[..., :3].std() > 0.1


def test_a_failed_run_leaves_an_earlier_result_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in FILES:
        (tmp_path / name).write_text(f"earlier {name}")

    def fail(*_: object) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(torch.optim.Adam, "step", fail)
    with pytest.raises(RuntimeError, match="out of luck"):
        main(["demo", "--out", str(tmp_path), "--iterations", "2"])
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        name: f"earlier {name}" for name in FILES
    }


def test_missing_matplotlib_is_said_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit, match=r"matplotlib: pip install 'fdsm\[report\]'"):
        main(["demo", "--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")
    with pytest.raises(SystemExit, match=f"cannot write to {taken}: File exists"):
        main(["demo", "--out", str(taken)])


def test_too_few_iterations_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="--iterations must be at least 1, but got 0"):
        main(["demo", "--out", str(tmp_path), "--iterations", "0"])
