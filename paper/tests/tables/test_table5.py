"""The rows of Table 5: settings and provenance."""

from dataclasses import replace

from paper.features import InceptionFeatures
from paper.tables import table5


def test_cpu_rows_differ_only_in_the_objective() -> None:
    first = table5.CPU[0]
    for row in table5.CPU:
        changed = replace(
            row, name=first.name, objective=first.objective, provenance=first.provenance
        )
        assert changed == first


def test_provenance_states_the_step_size_and_the_row_that_is_not_in_the_paper() -> None:
    for row in (*table5.CPU, *table5.PAPER):
        assert ("Not in the paper" in row.provenance) == (row.name == "DSM")
        assert ("ε is 0.1" in row.provenance) == (row.name == "FD-SSMVR")


def test_the_published_fid_uses_fifty_thousand_samples() -> None:
    for row in table5.PAPER:
        assert row.distance.features == InceptionFeatures()
        assert (row.distance.samples, row.distance.images) == (50_000, 50_000)
