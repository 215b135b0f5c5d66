"""Imports point one way: library < tables < command; nothing imports `paper` or `benchmarks`."""

import ast
import re
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
    {"derivatives", "projections", "noise"},
    {"operators"},
    {"objectives", "models", "samplers", "evaluation"},
    {"training"},
    {"tables"},
    {"cli"},
    {"__main__"},
]
"""The modules of the package. Each imports only those of the layers before its own."""
TABLES = [
    {"errors", "heavy_tails", "imputation"},
    {"encoder", "ensemble", "schema"},
    {"comparison", "conditionals", "frame", "given", "normalization", "relations"},
    {"gibbs", "outliers"},
    {"explain"},
    {"scoring", "summary"},
    {"imputing"},
    {"model", "report", "stream"},
    {"estimator"},
]
"""The modules of `fdsm.tables`. The page is made from the summary and does not know the model."""
WORDS = r"\b(?:(?:Table|Figure|Fig\.) \d|MNIST|CIFAR|CelebA|SVHN|published|recipes?)\b"
"""Words of the reproduction."""


def imports(source: str, package: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the module and the name of each import, also in functions, but not for types only.

    Args:
        source: The source of a module.
        package: The package that it belongs to, as its parts.

    Yields:
        The absolute name of the module, and the name that is taken from it, or an empty text.
    """
    tree = ast.parse(source)
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in for_types:
            continue
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


def imports_up(package: str, layers: list[set[str]]) -> list[str]:
    """Return the imports inside a package that do not point to a layer before."""
    rank = {name: number for number, layer in enumerate(layers) for name in layer}
    files = (ROOT / package).glob("[!_]*")
    assert {path.stem for path in files if path.suffix in {"", ".py"}} == rank.keys() - {
        "__main__"
    }
    depth, wrong = len(Path(package).parts), []
    for path, module, name in imports_in(package):
        here = path.parts[depth].removesuffix(".py")
        parts = [*module.split("."), name]
        if here in rank and "/".join(parts[:depth]) == package:
            others = {parts[depth]} & rank.keys() - {here}
            wrong += [f"{path}: {other}" for other in others if rank[other] >= rank[here]]
    return wrong


def test_every_form_of_import_is_recognized() -> None:
    source = """
import fdsm.cli
from fdsm import tables
from fdsm.training import fit
from ..models import nice
from .. import samplers
def f():
    from . import sliced
if TYPE_CHECKING:
    from torch import Tensor
"""
    assert list(imports(source, ("fdsm", "objectives"))) == [
        ("fdsm.cli", ""),
        ("fdsm", "tables"),
        ("fdsm.training", "fit"),
        ("fdsm.models", "nice"),
        ("fdsm", "samplers"),
        ("fdsm.objectives", "sliced"),
    ]


def test_imports_inside_the_package_point_down() -> None:
    assert imports_up("fdsm", LAYERS) == []
    assert imports_up("fdsm/tables", TABLES) == []
    assert imports_up("fdsm", [*LAYERS[:-3], {"cli"}, {"tables"}, {"__main__"}]) != []


def test_the_table_tool_does_not_speak_of_the_reproduction() -> None:
    files = [*(ROOT / "fdsm" / "tables").rglob("*.py"), *(ROOT / "fdsm" / "cli").rglob("*.py")]
    assert len(files) > 40
    texts = {path: path.read_text(encoding="utf8") for path in files}
    assert [path for path, text in texts.items() if re.search(WORDS, text)] == []


def test_nothing_imports_the_paper_or_the_benchmarks() -> None:
    """Except for the benchmarks, which use data sets and plots of the paper."""
    others = {"paper", "benchmarks"}
    found = [*imports_in("fdsm"), *imports_in("tests"), *imports_in("examples")]
    assert len(found) > 1000
    assert [entry for entry in found if entry[1].split(".")[0] in others] == []
    assert [e for e in imports_in("paper") if e[1].split(".")[0] == "benchmarks"] == []


def test_no_test_imports_a_test() -> None:
    found = imports_in("tests")
    assert [entry for entry in found if ".test_" in f"{entry[1]}.{entry[2]}"] == []


@pytest.mark.parametrize("room", ["paper", "benchmarks"])
def test_only_public_names_of_the_package_are_imported(room: str) -> None:
    """A name is public if the module that it is imported from lists it in `__all__`.

    Tests may look at the inside.
    """
    if not (ROOT / room).exists():
        pytest.skip("not in the source distribution")
    found = [entry for entry in imports_in(room) if entry[1].split(".")[0] == "fdsm"]
    own = [entry for entry in found if "tests" not in entry[0].parts]
    assert own
    assert [entry for entry in own if not is_public(*entry[1:])] == []


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
import fdsm.evaluation, fdsm.models, fdsm.noise, fdsm.operators, fdsm.samplers, fdsm.training
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
