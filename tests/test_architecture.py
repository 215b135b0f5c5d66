"""Imports point one way: `paper` and `benchmarks` use the package, and nothing imports them."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import fdsm

ROOT = Path(fdsm.__file__).parents[1]
LAYERS = [
    {"extras", "untrusted"},
    {"atomic_io", "serialize", "tensors", "typing"},
    {"measurement"},
    {"derivatives", "projections", "noise", "data"},
    {"operators"},
    {"objectives", "models", "samplers", "evaluation", "outliers"},
    {"training"},
    {"recipes"},
    {"runs"},
    {"estimator", "report"},
    {"cli"},
    {"__main__"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def imports(source: str, package: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the module and the name of each import, wherever in the source it stands.

    Args:
        source: The source of a module.
        package: The package that it belongs to, as its parts.

    Yields:
        The absolute name of the module, and the name that is taken from it, or an empty text.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*parents, *([node.module] if node.module else [])])
            yield from ((module, alias.name) for alias in node.names)


@cache
def imports_in(room: str) -> list[tuple[Path, str, str]]:
    """Return the file, the module and the name of each import in a folder of the repository."""
    return [
        (path.relative_to(ROOT), module, name)
        for path in sorted((ROOT / room).rglob("*.py"))
        for module, name in imports(
            path.read_text(encoding="utf8"), path.relative_to(ROOT).parent.parts
        )
    ]


def layers(module: str, name: str) -> set[str]:
    """Return the layer of the package that an import refers to, if any."""
    parts = [*module.split("."), name]
    return {parts[1]} & RANK.keys() if parts[0] == "fdsm" else set()


def test_every_form_of_import_is_recognized() -> None:
    source = """
import fdsm.cli
from fdsm import report
from fdsm.training import fit
from ..models import nice
from .. import samplers
def f():
    from . import sliced
"""
    found = [layers(*pair) for pair in imports(source, ("fdsm", "objectives"))]
    assert set().union(*found) == {
        "cli", "report", "training", "models", "samplers", "objectives",
    }  # fmt: skip


def test_imports_inside_the_package_point_down() -> None:
    entries = {path.stem for path in (ROOT / "fdsm").glob("[!_]*") if path.suffix in {"", ".py"}}
    assert entries == RANK.keys() - {"__main__"}
    wrong = []
    for path, module, name in imports_in("fdsm"):
        here = path.parts[1].removesuffix(".py")
        if here != "__init__":
            others = layers(module, name) - {here}
            wrong += [f"{path}: {other}" for other in others if RANK[other] >= RANK[here]]
    assert wrong == []


def test_nothing_imports_the_paper_or_the_benchmarks() -> None:
    others = {"paper", "benchmarks"}
    found = [*imports_in("fdsm"), *imports_in("tests"), *imports_in("examples")]
    assert len(found) > 1000
    assert [entry for entry in found if entry[1].split(".")[0] in others] == []
    for room in sorted(others):
        (other,) = others - {room}
        assert [entry for entry in imports_in(room) if entry[1].split(".")[0] == other] == []


def test_no_test_imports_a_test() -> None:
    found = imports_in("tests")
    assert [entry for entry in found if ".test_" in f"{entry[1]}.{entry[2]}"] == []


@pytest.mark.parametrize("room", ["paper", "benchmarks"])
def test_only_public_names_of_the_package_are_imported(room: str) -> None:
    """A name is public if the module that it is imported from lists it in `__all__`."""
    if not (ROOT / room).exists():
        pytest.skip("not in the source distribution")
    found = [entry for entry in imports_in(room) if entry[1].split(".")[0] == "fdsm"]
    assert found
    assert [entry for entry in found if not is_public(*entry[1:])] == []


def is_public(module: str, name: str) -> bool:
    if any(part.startswith("_") for part in [*module.split("."), name]):
        return False
    names = getattr(import_module(module), "__all__", ())
    return name in names if name else bool(names)


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


def test_importing_the_library_and_losses_load_nothing_that_is_slow_to_import() -> None:
    """The compiler, for example, is used only where a model is compiled."""
    code = f"""
import sys, torch
from torch import nn
import fdsm.evaluation, fdsm.models, fdsm.outliers, fdsm.recipes, fdsm.runs, fdsm.samplers
import fdsm.training
from fdsm import SSM, Autodiff, FiniteDifference, Taylor
found = sys.modules.keys() & {SLOW | SELDOM}
assert not found, found
model = nn.Sequential(nn.Linear(3, 1), nn.Tanh(), nn.Flatten(0))
for engine in (Taylor(), Autodiff(), FiniteDifference()):
    SSM(engine)(model, torch.randn(8, 3)).sum().backward()
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
