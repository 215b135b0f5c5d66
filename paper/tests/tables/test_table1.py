"""The rows of Table 1: settings and provenance."""

import pytest

from fdsm.serialize import differences, to_json
from paper.recipes import KernelFamily
from paper.tables.table1 import CPU, PAPER

ROWS = {row.name: row for row in CPU}
METHODS = ("SSM", "SSMVR", "FD-SSM", "FD-SSM-all", "Taylor-SSM", "Taylor-SM")


def test_rows_are_methods_on_data_then_step_sizes_then_more_patience() -> None:
    names = ("Parkinsons", "RedWine", "WhiteWine")
    steps = [f"Parkinsons FD-SSM {step}" for step in (0.05, 0.02, 0.01)]
    longer = ["Parkinsons SSM longer", "Parkinsons FD-SSM longer"]
    methods = [f"{data} {method}" for data in names for method in METHODS]
    assert list(ROWS) == [*methods, *steps, *longer]
    assert PAPER == CPU


def test_rows_with_other_step_sizes_differ_in_nothing_else() -> None:
    published = {0.05: "13.51", 0.02: "14.03", 0.01: "14.00"}
    for step, nll in published.items():
        row, other = ROWS["Parkinsons FD-SSM"], ROWS[f"Parkinsons FD-SSM {step}"]
        assert differences(to_json(row), to_json(other)) == [
            f"name: {row.name} -> {other.name}",
            f"objective.projection.radius: 0.1 -> {step}",
        ]
        assert nll in other.provenance


def test_rows_with_more_patience_differ_in_nothing_else() -> None:
    for method in ("SSM", "FD-SSM"):
        row, other = ROWS[f"Parkinsons {method}"], ROWS[f"Parkinsons {method} longer"]
        assert differences(to_json(row), to_json(other)) == [
            f"name: {row.name} -> {other.name}",
            "plan.patience: 200 -> 1000",
        ]
        assert "1,000 iterations without a better" in other.provenance


@pytest.mark.parametrize("row", CPU, ids=lambda row: row.name)
def test_provenance_names_the_sources_where_they_disagree(row: KernelFamily) -> None:
    assert "App. C.2" in row.provenance
    assert "moments of all data" in row.provenance
    assert "float64" in row.provenance


def test_provenance_of_fd_ssm_explains_the_shared_calculation() -> None:
    for name in ("Parkinsons FD-SSM", "RedWine FD-SSM", "Parkinsons FD-SSM 0.02"):
        assert "shared calculation" in ROWS[name].provenance
    for nll in ("13.69", "14.17"):
        assert nll in ROWS["Parkinsons FD-SSM"].provenance
