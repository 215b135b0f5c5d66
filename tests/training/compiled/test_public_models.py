"""Models and loops of other people: compiled steps equal eager ones, or are refused."""

import warnings

import pytest
import torch
from torch import Generator, Tensor

from fdsm.training import CompiledUpdate, CompileWarning, Update

from ...parameters import at_night
from .public_cases import CASES, SLOW, Case

STEPS = 20


def trained(case: Case, kind: type[Update]) -> tuple[Update, list[Tensor]]:
    """Return an update after some steps, and the losses of all steps."""
    torch.manual_seed(0)
    model = case.build()
    optimizer = case.optimizer(model.parameters())
    loop, update = case.loop(model, optimizer), kind(case.loss(model), model, optimizer, 5.0)
    data, generator = Generator().manual_seed(1), Generator().manual_seed(2)
    losses = []
    for i in range(STEPS):
        batch = [torch.randn(6, *case.shape, generator=data)]
        batch += [torch.randint(2 + i // 5, (6,), generator=data)] * case.labels
        next(loop)
        with case.around():
            losses.append(update(tuple(batch), generator, i / STEPS)["loss"])
    return update, losses


def require_equal(name: str) -> None:
    case = CASES[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        eager, expected = trained(case, Update)
        update, losses = trained(case, CompiledUpdate)
    assert isinstance(update, CompiledUpdate)
    words = [str(w.message) for w in caught if w.category is CompileWarning]
    assert update.is_compiled or words
    if case.refused is None:
        assert not words
    else:
        assert len(words) == 1
        assert case.refused in words[0]
    torch.testing.assert_close(losses, expected, rtol=case.rtol, atol=1e-9)
    state, truth = (u.module.state_dict() for u in (update, eager))
    torch.testing.assert_close(state, truth, rtol=10 * case.rtol, atol=10 * case.rtol)


QUICK = [name for name in CASES if name not in SLOW][::3]


@pytest.mark.usefixtures("_traced_only")
@pytest.mark.parametrize("name", at_night(CASES, but=QUICK))
def test_traced_steps_equal_eager_steps_or_are_refused(name: str) -> None:
    require_equal(name)


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.refused is None])
def test_compiled_steps_equal_eager_steps(name: str) -> None:
    require_equal(name)
