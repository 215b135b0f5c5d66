"""Apply each mutation to a copy of the project and run the tests that should notice it.

`python -m tests.nightly.mutation` tries all mutations, and `python -m tests.nightly.mutation TEXT`
those whose name contains the text. Exits with status 1 if a mutation is not noticed or does not
apply.
"""

import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table

from .formulas import FORMULAS, Mutation

ROOT = Path(__file__).parents[3]


def outcome(tests: str, mutation: Mutation | None = None) -> str:
    """Run tests in a copy of the project.

    Args:
        tests: The tests, separated by spaces.
        mutation: The change of the copy, if any.

    Returns:
        "passed", "failed" or the reason why the tests could not run.
    """
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        for folder in ("fdsm", "tests"):
            shutil.copytree(ROOT / folder, copy / folder)
        shutil.copy(ROOT / "pyproject.toml", copy)
        if mutation:
            file = copy / "fdsm" / mutation.file
            source = file.read_text(encoding="utf8") if file.exists() else ""
            count = source.count(mutation.original)
            if count != 1:
                return f"does not apply: {mutation.original!r} is {count} times in {mutation.file}"
            file.write_text(source.replace(mutation.original, mutation.mutated), encoding="utf8")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, *tests.split()], cwd=copy, capture_output=True, check=False
        )
    return {0: "passed", 1: "failed"}.get(done.returncode, "the tests did not run")


def main(arguments: list[str]) -> None:
    """Try the mutations, two at a time, and print a table.

    The tests must pass without a mutation: otherwise their failure says nothing.
    """
    chosen = [m for m in FORMULAS if all(text in m.name for text in arguments)]
    tests = sorted({m.tests for m in chosen})
    with ThreadPoolExecutor(2) as pool:
        unchanged = dict(zip(tests, pool.map(outcome, tests), strict=True))
        changed = list(pool.map(lambda m: outcome(m.tests, m), chosen))
    table = Table("mutation", "outcome")
    noticed = 0
    for mutation, result in zip(chosen, changed, strict=True):
        if unchanged[mutation.tests] != "passed":
            result = f"without the mutation: {unchanged[mutation.tests]}"
        result = {"failed": "noticed", "passed": "not noticed"}.get(result, result)
        noticed += result == "noticed"
        table.add_row(mutation.name, result if result == "noticed" else f"[bold red]{result}")
    Console().print(table)
    print(f"{noticed} of {len(chosen)} noticed")
    sys.exit(noticed < len(chosen))


if __name__ == "__main__":
    main(sys.argv[1:])
