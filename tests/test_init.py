"""The names that `fdsm` exports: one table, loaded lazily, and the same names in the stub."""

import ast
from importlib import import_module
from pathlib import Path

import fdsm

STUB = Path(fdsm.__file__).with_name("__init__.pyi")


def names_in_stub() -> list[str]:
    """Return the names that type checkers see, sorted."""
    names: list[str] = []
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.ImportFrom):
            continue
        for alias in node.names:
            if alias.name == "*":
                names += import_module(f"fdsm.{node.module}").__all__
            else:
                assert alias.asname == alias.name, "only `import X as X` is exported by a stub"
                names.append(alias.name)
    return sorted(names)


def test_the_stub_has_the_names_of_the_table() -> None:
    assert names_in_stub() == fdsm.__all__


def test_every_name_is_that_of_its_module() -> None:
    for module, names in fdsm._EXPORTS.items():
        for name in names:
            assert getattr(fdsm, name) is getattr(import_module(f"fdsm.{module}"), name)


def test_the_changelog_describes_this_version() -> None:
    changelog = (STUB.parents[1] / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = [line for line in changelog.splitlines() if line.startswith("## [")]
    latest = next(line for line in versions if line != "## [Unreleased]")
    assert latest.startswith(f"## [{fdsm.__version__}]")


def test_the_citation_is_of_this_version() -> None:
    lines = (STUB.parents[1] / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert f"version: {fdsm.__version__}" in lines
