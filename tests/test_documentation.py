"""The Python code in the README and the documentation runs, and its links and names exist."""

import inspect
import pydoc
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import torch
from torch import nn

import fdsm
from fdsm.cli.demo import demo
from fdsm.cli.impute import impute
from fdsm.cli.report import report
from fdsm.cli.sample import sample
from fdsm.cli.score import score
from fdsm.cli.train import train
from fdsm.derivatives import Autodiff
from fdsm.objectives import SM, SSM
from fdsm.projections import Sphere

ROOT = Path(fdsm.__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf8"), re.DOTALL)


def names() -> dict[str, object]:
    """Return the names that the examples use without defining them."""
    model = nn.Sequential(nn.Linear(3, 8), nn.Softplus(), nn.Linear(8, 1), nn.Flatten(0))
    return {
        "f": lambda x: x.sin().sum(1),
        "model": model,
        "nn": nn,
        "torch": torch,
        "v": 0.1 * torch.randn(32, 3),
        "x": torch.randn(32, 3),
    }


def require_readme(given: dict[str, Any], printed: str) -> None:
    """The gradients arrive, and the row against the correlation is found."""
    assert all(p.grad is not None for p in given["model"].parameters())
    assert "the error of differences is smallest near" in printed
    usual, unusual = given["detector"].outlier_scores([[1.0, 1.5], [2.5, -2.5]])
    assert usual < 1 < 2 < unusual


def require_guide(given: dict[str, Any], printed: str) -> None:
    """The new category and the pressure are found, and samples look like the table."""
    assert "2 numeric (temperature, pressure), 1 categorical (state)" in printed
    assert given["scored"].p_value[0] > 0.05 > given["scored"].p_value[1]
    first, second = given["scored"].reasons[1]
    assert (first.column, second.column, second.value) == ("state", "pressure", "1090")
    assert float(second.expected) == pytest.approx(1041, abs=2)  # 1000 + 2 · 20 + 0, 1 or 2
    assert given["tables"].sample(5).column_names == ["temperature", "pressure", "state"]
    assert given["filled"]["pressure"][0].as_py() == pytest.approx(1041, abs=2)
    assert given["filled"]["temperature"][1].as_py() == pytest.approx(22, abs=2)
    assert set(given["warm"]["state"].to_pylist()) == {"off"}
    assert min(given["warm"]["temperature"].to_pylist()) > 21
    assert min(given["same"]["pressure"].to_pylist()) >= 1040
    assert "[ 1 -1]" in printed


REQUIRED = {"README.md": require_readme, "guide.md": require_guide}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_examples_run(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = names()
    if page.name == "training.md" and not (ROOT / "paper").exists():
        pytest.skip("not in the source distribution")
    for block in blocks(page):
        exec(compile(block, str(page), "exec"), given)
    if page.name in REQUIRED:
        REQUIRED[page.name](given, capsys.readouterr().out)


def test_the_example_of_a_projection_is_isotropic(generator: torch.Generator) -> None:
    given = names()
    exec(blocks(ROOT / "docs" / "extending.md")[0], given)
    x = torch.randn(5, 3, generator=generator)
    losses = SSM(Autodiff(), given["Coordinates"]())(given["model"], x.repeat(20_000, 1))
    exact = SM()(given["model"], x)
    torch.testing.assert_close(losses.view(-1, 5).mean(0), exact, rtol=0, atol=2e-3)


def test_the_example_of_an_objective_has_its_closed_form(generator: torch.Generator) -> None:
    given = names()
    exec(blocks(ROOT / "docs" / "extending.md")[1], given)
    f = lambda x: 3 * x.square().sum(1) / 2
    losses = given["CurvaturePenalty"](directions=2)(f, torch.randn(4, 3), generator=generator)
    torch.testing.assert_close(losses, torch.full((4,), 9.0))


def test_the_example_of_an_engine_is_a_derivative_and_is_protected(
    generator: torch.Generator,
) -> None:
    given = names()
    exec(blocks(ROOT / "docs" / "extending.md")[2], given)
    engine, x = given["OneSided"](), torch.randn(8, 3, generator=generator)
    v = Sphere(1e-4).sample(x, generator)
    for own, exact in zip(
        (*engine.jet(given["model"], x, v, 2), *engine.sliced(given["model"], x, v[None])),
        (*Autodiff().jet(given["model"], x, v, 2), *Autodiff().sliced(given["model"], x, v[None])),
        strict=True,
    ):
        assert (own - exact).norm() < 1e-3 * exact.norm()
    score = torch.tanh
    torch.testing.assert_close(
        engine.quadratic(score, x, v)[1], Autodiff().quadratic(score, x, v)[1], rtol=1e-3, atol=0
    )
    with pytest.raises(RuntimeError, match="with the other rows"):
        engine.jet(lambda x: (x - x.mean(0)).square().sum(1), x, v, 2)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name)
def test_links_and_paths_exist(page: Path) -> None:
    """Paths in code style are relative to the repository or to the package."""
    text = page.read_text(encoding="utf8")
    links = map(unquote, re.findall(r"\]\((?!http|#)([^)#]+)", text))
    paths = re.findall(r"`([a-z0-9_]+/[a-z0-9_/]+\.pyi?)`", text)
    assert [link for link in links if not (page.parent / link).exists()] == []
    assert [path for path in paths if not exists_in_repository(path)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_names_exist(page: Path) -> None:
    """Names of constants, such as `data.files.table.FEW_CELLS`, are relative to the package."""
    text = page.read_text(encoding="utf8")
    names = re.findall(r"`(?:fdsm\.([a-zA-Z_.]+)|((?:[a-z_]+\.)+[A-Z_]{3,})`)", text)
    assert [name for pair in names if not pydoc.locate(name := f"fdsm.{''.join(pair)}")] == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name)
def test_linked_headings_exist(page: Path) -> None:
    text = page.read_text(encoding="utf8")
    for link, anchor in re.findall(r"\]\((?!http)([^)#]*)#([^)]+)\)", text):
        assert anchor in anchors(page.parent / link if link else page)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page: its headings as GitHub abbreviates them, and its own."""
    text = page.read_text(encoding="utf8")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    short = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return short | set(re.findall(r'<a id="([^"]+)">', text))


def exists_in_repository(path: str) -> bool:
    return any((folder / path).exists() for folder in (ROOT, ROOT / "fdsm"))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_in_code_blocks_exist_and_have_these_options(page: Path) -> None:
    given = command_lines(page)
    unknown = {name for name, _ in given} - set(COMMANDS)
    assert not unknown
    for name, options in given:
        assert options <= COMMANDS[name], f"fdsm {name}"


def command_lines(page: Path) -> list[tuple[str, set[str]]]:
    """Return the commands in the code blocks of a page, each with its long options."""
    text = page.read_text(encoding="utf8")
    fences = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    code = "\n".join(content for language, content in fences if language in {"", "console"})
    lines = re.findall(r"^\s*(?:\$ )?fdsm (\w+)(.*)$", code, re.MULTILINE)
    return [(name, set(re.findall(r" --([a-z-]+)", rest.split("  ")[0]))) for name, rest in lines]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name)
def test_make_targets_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf8").replace("\\\n", " ")
    known = set(" ".join(re.findall(r"^(?:\.PHONY:|TARGETS =)(.*)$", makefile, re.M)).split())
    used = re.findall(r"(?:^|`)make ([a-z][\w-]*)", page.read_text(encoding="utf8"), re.M)
    assert set(used) <= known


def options_of(command: Callable[..., None]) -> set[str]:
    """Return the names of the options of a command."""
    return {name.replace("_", "-") for name in inspect.signature(command).parameters}


COMMANDS = {
    command.__name__: options_of(command)
    for command in (train, score, impute, sample, report, demo)
}


@pytest.mark.nightly
def test_the_example_of_a_training_loop_learns(capsys: pytest.CaptureFixture[str]) -> None:
    """The loss ends near that of the truth, and the normalized density near the truth."""
    numbers = printed_by("plane_density.py", capsys)
    assert numbers["exact loss on held-out data"] < numbers["the same of the truth"] + 0.1
    assert abs(numbers["Kullback-Leibler divergence from the truth"]) < 0.02


@pytest.mark.nightly
def test_the_example_with_another_library_learns(capsys: pytest.CaptureFixture[str]) -> None:
    """The likelihood, which is not used in training, ends above that of a fitted Gaussian."""
    pytest.importorskip("zuko")
    validation = torch.distributions.Distribution._validate_args
    numbers = printed_by("flow_likelihood.py", capsys)
    torch.distributions.Distribution.set_default_validate_args(validation)  # zuko switches it off
    assert numbers["truth"] < numbers["score matching"] < numbers["fitted Gaussian"] - 2


def printed_by(example: str, capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    """Run a page of the gallery. Return the first number of each line, by the text before it."""
    pytest.importorskip("matplotlib").use("agg")
    torch.set_default_dtype(torch.float32)
    runpy.run_path(str(ROOT / "examples" / example), run_name="__main__")
    lines = [line.split(":") for line in capsys.readouterr().out.splitlines() if ":" in line]
    return {name: float(rest.split()[0].rstrip("%")) for name, rest in lines}
