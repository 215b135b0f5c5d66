"""Imports point one way, from the command line down to derivatives and data."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fdsm

ROOT = Path(fdsm.__file__).parent
LAYERS = [
    {"atomic_io", "serialize", "tensors", "typing"},
    {"measurement"},
    {"derivatives", "projections", "noise", "data"},
    {"objectives", "models", "samplers", "evaluation"},
    {"training"},
    {"recipes"},
    {"runs"},
    {"report"},
    {"paper"},
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


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    here = path.relative_to(ROOT).parts[0].removesuffix(".py")
    package = path.relative_to(ROOT.parent).parent.parts
    for other in imported_layers(path.read_text(encoding="utf8"), package) - {here}:
        assert RANK[other] < RANK[here], f"{here} must not import {other}"


def test_all_ways_of_importing_are_seen() -> None:
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


def test_importing_fdsm_does_not_load_torch() -> None:
    code = (
        "import fdsm, sys; print('torch' in sys.modules); fdsm.SSM; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_public_names_are_what_they_say() -> None:
    from fdsm.derivatives import FiniteDifference
    from fdsm.objectives import SSM

    assert fdsm.SSM is SSM
    assert fdsm.derivatives.FiniteDifference is FiniteDifference is fdsm.FiniteDifference
    assert all(hasattr(fdsm, name) for name in dir(fdsm))
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = fdsm.nonsense
