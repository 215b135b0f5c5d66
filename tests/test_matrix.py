"""`make matrix` and the workflow use the versions that `pyproject.toml` declares."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


def test_the_matrix_starts_at_the_oldest_versions_declared() -> None:
    command = [sys.executable, str(ROOT / "tools" / "matrix.py"), "--json"]
    versions = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == f">={versions['python'][0]}"
    (torch,) = (r for r in map(Requirement, project["dependencies"]) if r.name == "torch")
    oldest, newest = versions["torch"]
    (bound,) = torch.specifier
    assert bound.operator == ">="
    assert f"{oldest}.".startswith(f"{bound.version}.")
    assert newest != oldest
    assert torch.specifier.contains(newest)
