"""The CelebA rows of Table 6: settings and provenance."""

from paper.features import InceptionFeatures
from paper.tables.table6_celeba import CPU, PAPER


def test_rows_have_the_published_settings() -> None:
    names = [f"CelebA {kind} {name}" for kind in ("VAE", "WAE") for name in ("SSMVR", "FD-SSMVR")]
    assert [row.name for row in PAPER] == [row.name for row in CPU] == names
    assert all(row.provenance for row in (*PAPER, *CPU))
    for row in PAPER:
        assert (row.plan.iterations, row.plan.batch, row.latent) == (100_000, 128, 32)
        assert (row.distance.features, row.distance.samples) == (InceptionFeatures(), 10_000)


def test_provenance_explains_the_published_times() -> None:
    for row in (*PAPER, *CPU):
        assert "the step that trains the score" in row.provenance
        assert ("ten times too small" in row.provenance) == ("WAE" in row.name)
