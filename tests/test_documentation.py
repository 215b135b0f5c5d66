"""The Python in the README and the documentation runs as it stands."""

import dataclasses
import re
import runpy
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

import fdsm
from fdsm.derivatives import Autodiff, FiniteDifference
from fdsm.objectives import SM, SSM
from fdsm.objectives.directions import Sliced, average_over_directions
from fdsm.paper.document import write
from fdsm.projections import Sphere
from fdsm.typing import Derivative, Projection

ROOT = Path(fdsm.__file__).parents[1]
KEPT = ROOT / "results"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf8"), re.DOTALL)


def names() -> dict[str, object]:
    """Return what the examples take as given."""
    model = nn.Sequential(nn.Linear(3, 8), nn.Softplus(), nn.Linear(8, 1), nn.Flatten(0))
    return {
        "Derivative": Derivative,
        "FiniteDifference": FiniteDifference,
        "Projection": Projection,
        "Sliced": Sliced,
        "Sphere": Sphere,
        "average_over_directions": average_over_directions,
        "dataclass": dataclasses.dataclass,
        "f": lambda x: x.sin().sum(1),
        "model": model,
        "nn": nn,
        "torch": torch,
        "v": 0.1 * torch.randn(32, 3),
        "x": torch.randn(32, 3),
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_examples_run(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = names()
    for block in blocks(page):
        exec(compile(block, str(page), "exec"), given)
    if page.name == "README.md":
        assert all(p.grad is not None for p in given["model"].parameters())
        assert "recommended" in capsys.readouterr().out


def test_the_projection_of_the_guide_is_isotropic(generator: torch.Generator) -> None:
    given = names()
    exec(blocks(ROOT / "docs" / "extending.md")[0], given)
    x = torch.randn(5, 3, generator=generator)
    losses = SSM(Autodiff(), given["Coordinates"]())(given["model"], x.repeat(20_000, 1))
    exact = SM()(given["model"], x)
    torch.testing.assert_close(losses.view(-1, 5).mean(0), exact, rtol=0, atol=2e-3)


def test_the_objective_of_the_guide_is_what_it_says(generator: torch.Generator) -> None:
    given = names()
    exec(blocks(ROOT / "docs" / "extending.md")[1], given)
    f = lambda x: 3 * x.square().sum(1) / 2
    losses = given["CurvaturePenalty"](directions=2)(f, torch.randn(4, 3), generator=generator)
    torch.testing.assert_close(losses, torch.full((4,), 9.0))


def test_every_page_is_linked_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf8")
    for page in PAGES[1:]:
        assert f"(docs/{page.name})" in readme
    for target in re.findall(r"\]\((?!http)([^)]+)\)", readme):
        assert (ROOT / target).exists()


@pytest.mark.slow
def test_the_loop_of_the_example_learns(capsys: pytest.CaptureFixture[str]) -> None:
    """Far from each other, modes of variance ¼ have an SM loss of -1/(2·¼) per dimension."""
    torch.set_default_dtype(torch.float32)
    runpy.run_path(str(ROOT / "examples" / "own_loop.py"), run_name="__main__")
    last = float(capsys.readouterr().out.split("data")[-1].split()[0])
    assert last == pytest.approx(-2, abs=0.25)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fdsm.derivatives.KinkWarning")
def test_the_flow_of_another_library_learns(capsys: pytest.CaptureFixture[str]) -> None:
    """Without its likelihood it ends above that of a Gaussian with the moments of the data."""
    pytest.importorskip("zuko")
    validation = torch.distributions.Distribution._validate_args
    torch.set_default_dtype(torch.float32)
    runpy.run_path(str(ROOT / "examples" / "other_library.py"), run_name="__main__")
    torch.distributions.Distribution.set_default_validate_args(validation)  # zuko turns it off
    flow, gaussian = (
        float(line.split("NLL")[1].split()[0])
        for line in capsys.readouterr().out.splitlines()[-2:]
    )
    assert flow < gaussian - 0.5


def test_the_reproduction_says_what_its_results_do(tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(KEPT, results, ignore=shutil.ignore_patterns("figures"))
    page = write(ROOT / "docs/reproduction.md.jinja", results, tmp_path / "docs/reproduction.md")
    assert page.read_bytes() == (ROOT / "docs/reproduction.md").read_bytes()
    drawn, kept = (sorted(p.name for p in (r / "figures").iterdir()) for r in (results, KEPT))
    assert drawn == kept
