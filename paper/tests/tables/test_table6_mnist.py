"""The MNIST rows of Table 6: settings and provenance."""

from paper.tables.table6_mnist import CPU, PAPER


def test_rows_have_the_published_settings() -> None:
    names = [f"{kind} {name}" for kind in ("VAE", "WAE") for name in ("SSMVR", "FD-SSMVR")]
    assert [row.name for row in PAPER] == [row.name for row in CPU] == names
    for row in PAPER:
        assert (row.plan.iterations, row.plan.batch) == (100_000, 128)
        assert (row.temperatures, row.chains) == (1000, 16)


def test_provenance_explains_the_published_times() -> None:
    for row in (*PAPER, *CPU):
        assert "the step that trains the score" in row.provenance
        assert ("ten times too small" in row.provenance) == ("WAE" in row.name)
