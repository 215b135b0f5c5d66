"""Imports point one way, and tests mirror the package."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fdsm

ROOT = Path(fdsm.__file__).parent
LAYERS = [
    {"untrusted"},
    {"atomic_io", "serialize", "sharding", "tensors", "typing"},
    {"measurement"},
    {"derivatives", "projections", "noise", "data"},
    {"operators"},
    {"objectives", "models", "samplers", "evaluation", "outliers"},
    {"training"},
    {"recipes"},
    {"runs"},
    {"estimator", "report"},
    {"benchmarks", "paper"},
    {"cli"},
    {"__main__"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def targets(node: ast.AST, package: tuple[str, ...]) -> list[str]:
    """Return the dotted names that an import statement may refer to."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    parents = package[: len(package) - node.level + 1] if node.level else ()
    base = ".".join([*parents, *([node.module] if node.module else [])])
    return [base, *(f"{base}.{alias.name}" for alias in node.names)]


def imported_layers(source: str, package: tuple[str, ...]) -> set[str]:
    names = [name for node in ast.walk(ast.parse(source)) for name in targets(node, package)]
    parts = [name.split(".") for name in names]
    return {part[1] for part in parts if part[0] == "fdsm" and len(part) > 1} & RANK.keys()


FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")
TESTS = Path(__file__).parent
TESTED_ELSEWHERE = {
    "typing.py": "protocols; the contract tests of objectives, models and samplers",
    "data/errors.py": "tests/data/files/test_troubleshooting.py",
    "derivatives/records.py": "tests/derivatives/test_precision.py, test_validation.py",
    "derivatives/taylor/algebra.py": "tests/derivatives/taylor/rules",
    "derivatives/taylor/compiler.py": "tests/derivatives/taylor/test_integration.py",
    "derivatives/taylor/composition.py": "tests/derivatives/taylor/test_composed.py",
    "objectives/exact.py": "tests/objectives/test_contract.py",
    "objectives/likelihood.py": "tests/objectives/test_contract.py, tests/recipes/test_flow.py",
    "objectives/penalties.py": "tests/objectives/test_contract.py",
    "paper/study.py": "tests/paper/test_reproduce.py",
    "paper/support/analysis.py": "tests/paper/studies/test_lemma2.py, test_nce_mpf.py",
    "paper/tables/digits.py": "tests/cli/test_demo.py, tests/test_serialize.py",
    "paper/tables/toy_densities.py": "tests/test_serialize.py",
    "paper/targets.py": "tests/paper/test_catalogue.py",
    "recipes/presets/families.py": "tests/recipes/presets/test_choose.py",
    "report/target.py": "tests/paper/test_catalogue.py, tests/report",
}
"""Modules without a test file of their own, and where they are tested."""


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    here = path.relative_to(ROOT).parts[0].removesuffix(".py")
    package = path.relative_to(ROOT.parent).parent.parts
    for other in imported_layers(path.read_text(encoding="utf8"), package) - {here}:
        assert RANK[other] < RANK[here], f"{here} must not import {other}"


def test_only_the_command_line_imports_the_paper() -> None:
    for path in FILES:
        here = path.relative_to(ROOT).parts[0]
        package = path.relative_to(ROOT.parent).parent.parts
        if here not in {"cli", "paper"}:
            layers = imported_layers(path.read_text(encoding="utf8"), package)
            assert "paper" not in layers, path


def test_importing_the_library_does_not_load_the_paper_or_the_command_line() -> None:
    packages = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in FILES}
    names = ", ".join(f"fdsm.{name}" for name in sorted(packages - {"cli", "paper", "__main__"}))
    code = (
        f"import {names}, sys; "
        "print([name for name in sys.modules if name.startswith(('fdsm.paper', 'fdsm.cli'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_module_has_a_test_file_of_its_name() -> None:
    modules = {str(path.relative_to(ROOT)) for path in FILES if path.name[:2] != "__"}
    without = {
        name
        for name in modules
        if not (TESTS / Path(name).parent / f"test_{Path(name).name}").exists()
    }
    assert without == TESTED_ELSEWHERE.keys()


def test_no_test_imports_a_test() -> None:
    for path in TESTS.rglob("*.py"):
        package = path.relative_to(TESTS.parent).parent.parts
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf8")))
        names = {name for node in nodes for name in targets(node, package)}
        imported = {name for name in names if name.startswith("tests.") and ".test_" in name}
        assert not imported, path


def test_every_form_of_import_is_recognized() -> None:
    source = """
import fdsm.cli
from fdsm import report
from fdsm.training import fit
from ..models import nice
from .. import samplers
from . import sliced
"""
    assert imported_layers(source, ("fdsm", "objectives")) == {
        "cli", "report", "training", "models", "samplers", "objectives",
    }  # fmt: skip


def modules_after(code: str) -> set[str]:
    """Return the names of the modules that are loaded after some code was run."""
    code = f"{code}\nimport sys; print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


SLOW = {"torch._dynamo", "torch._inductor", "sympy", "sklearn", "matplotlib"}
"""Modules that take a third of a second or more to import."""
SELDOM = {"rich", "tyro", "pyarrow", "PIL", "jinja2"}
"""Modules that some commands need."""


def test_importing_fdsm_does_not_load_torch() -> None:
    assert "torch" not in modules_after("import fdsm")
    assert "torch" in modules_after("import fdsm; fdsm.SSM")


@pytest.mark.parametrize(
    "code",
    [
        "from fdsm import SSM, DSM, SM, Taylor, FiniteDifference, Autodiff, Sphere",
        "import fdsm.training, fdsm.models, fdsm.samplers",
        "import fdsm.runs, fdsm.recipes, fdsm.evaluation, fdsm.outliers",
    ],
)
def test_importing_the_library_loads_nothing_that_is_slow_to_import(code: str) -> None:
    assert modules_after(code) & (SLOW | SELDOM) == set()


@pytest.mark.parametrize("engine", ["Taylor()", "Autodiff()", "FiniteDifference()"])
def test_losses_do_not_load_the_compiler(engine: str) -> None:
    """It is used only where a model is compiled, and takes a second to import."""
    code = f"""
import fdsm, torch
from torch import nn
model = nn.Sequential(nn.Linear(3, 1), nn.Tanh(), nn.Flatten(0))
fdsm.SSM(fdsm.{engine})(model, torch.randn(8, 3)).sum().backward()
"""
    assert "torch._dynamo" not in modules_after(code)


def test_public_names_are_those_of_their_packages() -> None:
    from fdsm.derivatives import FiniteDifference
    from fdsm.objectives import SSM

    assert fdsm.SSM is SSM
    assert fdsm.derivatives.FiniteDifference is FiniteDifference is fdsm.FiniteDifference
    assert all(hasattr(fdsm, name) for name in dir(fdsm))
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = fdsm.nonsense
