"""Run the tests with the oldest and the newest supported torch on every supported Python.

The workflow on GitHub takes its versions from this file (`--json`, and `--lowest` for the other
packages). `make matrix` runs the same tests locally. For each combination it creates an
environment `.matrix/PYTHON-TORCH`, runs pytest in it and finally prints a table of the counts.
"""

import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
NEWEST_TORCH = "2.15.0"


def lower_bounds() -> dict[str, str]:
    """Return the lower bound of each package that fdsm or an extra needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = (d for extra in project["optional-dependencies"].values() for d in extra)
    bounds = (d.split(">=") for d in [*project["dependencies"], *extras] if "fdsm[" not in d)
    return dict(sorted((name, bound) for name, bound in bounds))


def oldest_torch() -> str:
    """Return the lower bound of torch as a full version, such as 2.7.0."""
    bound = lower_bounds()["torch"]
    return bound if re.fullmatch(r"\d+\.\d+\.\d+", bound) else f"{bound}.0"


def commands(python: str, torch: str, index_url: str | None) -> list[list[str]]:
    """Return the commands that create an environment and run the tests in it.

    Args:
        python: Version of Python.
        torch: Version of torch.
        index_url: Package index to install torch from; the default index of pip if not given.

    Returns:
        The commands, to be run in the root of the repository. The last one is pytest.
    """
    folder = f".matrix/{python}-{torch}"
    install = [f"{folder}/bin/python", "-m", "pip", "install", "--quiet"]
    return [
        [f"python{python}", "-m", "venv", folder],
        [*install, "pip>=25.1"],  # older ones know no groups
        [*install, f"torch=={torch}", *(["--index-url", index_url] if index_url else [])],
        [*install, f"torch=={torch}", "-e", ".[all]", "--group", "test"],
        [f"{folder}/bin/python", "-m", "pytest", "-q"],
    ]


def run(steps: list[list[str]], log: Path) -> tuple[bool, str]:
    """Run commands until one fails.

    Args:
        steps: The commands.
        log: File for their output.

    Returns:
        Whether all succeeded, and the last line of the output: the counts, if pytest ran.
    """
    with log.open("w", encoding="utf-8") as file:
        for step in steps:
            try:
                code = subprocess.run(step, cwd=ROOT, stdout=file, stderr=file).returncode
            except FileNotFoundError:
                return False, f"{step[0]} is not installed"
            if code:
                break
    lines = log.read_text(encoding="utf-8").strip().splitlines()
    return code == 0, lines[-1] if lines else ""


def main() -> None:
    """Print the versions, or run the tests with each combination of them."""
    versions = {"python": list(PYTHONS), "torch": [oldest_torch(), NEWEST_TORCH]}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", nargs="+", default=versions["python"], metavar="VERSION")
    parser.add_argument("--torch", nargs="+", default=versions["torch"], metavar="VERSION")
    parser.add_argument("--index-url", help="package index to install torch from")
    parser.add_argument("--delete", action="store_true", help="delete environments after use")
    parser.add_argument("--dry-run", action="store_true", help="print the commands only")
    parser.add_argument("--json", action="store_true", help="print the versions only, as JSON")
    parser.add_argument("--lowest", action="store_true", help="print constraints for pip only")
    options = parser.parse_args()
    if options.lowest:
        print(*(f"{name}=={bound}" for name, bound in lower_bounds().items()), sep="\n")
        return
    if options.json:
        print(json.dumps(versions))
        return
    results = []
    for python, torch in product(options.python, options.torch):
        steps, name = commands(python, torch, options.index_url), f"{python}-{torch}"
        if options.dry_run:
            print(*map(shlex.join, steps), sep="\n")
            continue
        (ROOT / ".matrix").mkdir(exist_ok=True)
        print(f"Python {python}, torch {torch}: see .matrix/{name}.log", flush=True)
        results.append((python, torch, *run(steps, ROOT / ".matrix" / f"{name}.log")))
        if options.delete:
            shutil.rmtree(ROOT / ".matrix" / name, ignore_errors=True)
    for python, torch, passed, summary in results:
        print(f"{python:8}{torch:10}{'pass' if passed else 'FAIL':6}{summary}")
    sys.exit(not all(passed for _, _, passed, _ in results))


if __name__ == "__main__":
    main()
