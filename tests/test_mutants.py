"""Every mutation of `tests.mutants` still has something to change."""

import pytest

from tests.mutants import MUTATIONS, ROOT, Mutation, applied


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_mutation_applies(mutation: Mutation) -> None:
    source = (ROOT / "fdsm" / mutation.file).read_text(encoding="utf8")
    assert applied(mutation, source) != source
