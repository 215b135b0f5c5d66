"""Rules are found by function and by name, and missing ones are reported."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fdsm.derivatives import Autodiff, MissingRule, Taylor, rule
from fdsm.derivatives.taylor.registry import _RULES
from fdsm.derivatives.taylor.rules import (
    activation,
    arithmetic,
    casting,
    convolution,
    elementwise,
    indexing,
    joining,
    matmul,
    nondifferentiable,
    pooling,
    reduction,
    shape,
    special,
    vision,
)

from .agreement import is_from

COMPARED = (
    activation, arithmetic, casting, convolution, elementwise, indexing, joining, matmul,
    nondifferentiable, pooling, reduction, shape, special, vision,
)  # fmt: skip


@pytest.mark.parametrize(
    ("f", "name"),
    [
        (torch.frac, r"torch\.frac"),
        (lambda x: x.frac(), r"torch\.Tensor\.frac"),
        (lambda x: x.frac_(), r"torch\.Tensor\.frac_"),
        (torch.special.bessel_j0, r"special\.bessel_j0"),
        (lambda x: functional.ctc_loss(x, x, x, x), r"torch\.nn\.functional\.ctc_loss"),
        (lambda x: torch.linalg.eigvals(x[:, :2]), r"linalg\.eigvals"),
        (lambda x: x.register_hook(print), "register_hook"),
        (lambda x: x.backward(), "backward"),
        (lambda x: x.grad, "grad"),
        (lambda x: x.numpy(), "numpy"),
        (lambda x: torch.linspace(x[0, 0], 1, 3), "linspace"),
    ],
)
def test_missing_rules_are_named(f: Callable[[Tensor], object], name: str) -> None:
    x = torch.ones(2, 3)
    message = f"no rule for `.*{name}.*@fdsm.derivatives.rule.*fallback=Autodiff"
    with pytest.raises(MissingRule, match=message):
        Taylor().jet(lambda x: (f(x), x.sum(1))[1], x, torch.ones_like(x), 2)


def test_the_fallback_is_used_if_a_rule_is_missing() -> None:
    x = torch.rand(2, 3) + 0.1
    f = lambda x: torch.mvlgamma(x + 1, 2).sum(1)
    found = Taylor(fallback=Autodiff()).jet(f, x, torch.ones_like(x), 2)
    torch.testing.assert_close(found, Autodiff().jet(f, x, torch.ones_like(x), 2))


def test_a_rule_holds_for_functions_methods_and_in_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fdsm.derivatives.taylor.registry._RULES", dict(_RULES))
    calls = []

    @rule("frac")
    def frac(x: Tensor) -> Tensor:
        calls.append(x)
        return x - x.detach().floor()

    x = torch.tensor([[1.5, -0.3]])
    for f in (torch.frac, lambda x: x.frac(), lambda x: (1 * x).frac_()):
        value, slope = Taylor().jet(lambda x, f=f: f(x).sum(1), x, torch.ones_like(x), 1)
        torch.testing.assert_close(value, torch.tensor([1.2]))
        assert slope == 2
    assert len(calls) == 3
    with pytest.raises(AttributeError, match="no function called 'nonsense'"):
        rule("nonsense")(frac)


PLACES = (torch, Tensor, functional, torch.special, torch.linalg, torch._C._nn)


def rules_by_place(name: str) -> list[object]:
    """Return the rules of the different functions that torch has under a name."""
    functions = {id(f): f for p in PLACES if (f := getattr(p, name, None)) is not None}
    return [_RULES[f] for f in functions.values() if callable(f) and f in _RULES]


@pytest.mark.parametrize(
    "name",
    [
        "unfold",  # windows along a dimension, or patches of images
        "diagonal",  # of the first two dimensions, or in linalg of the last two
        "cross",  # along the first dimension of length three, or in linalg the last
        "where",  # the condition comes first, or second in the method
        "polygamma",  # the order comes first, or second in the method
        "norm",  # a power for vectors, or in linalg for matrices too
        "batch_norm",  # the parameters come in another order
        "instance_norm",
    ],
)
def test_names_with_several_meanings_have_several_rules(name: str) -> None:
    assert len(set(rules_by_place(name))) > 1


def test_functions_of_a_name_agree_on_their_arguments() -> None:
    """The arguments of functions that share a name and a rule were compared by hand."""
    same = {
        "adaptive_avg_pool2d", "adaptive_avg_pool3d", "digamma", "erf", "erfc", "erfinv", "exp2",
        "expm1", "glu", "log1p", "logit", "matmul", "max_pool1d", "max_pool1d_with_indices",
        "max_pool2d", "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices", "mish",
        "sigmoid", "silu", "sinc", "tanh", "xlogy",
    }  # fmt: skip
    names = {getattr(f, "__name__", "") for f in _RULES}
    found = set()
    for name in names:
        elsewhere = any(hasattr(place, name) for place in PLACES[2:])
        known = rules_by_place(name)
        compared = known and any(is_from(module, name, known[0]) for module in COMPARED)
        if elsewhere and compared and len(known) > 1 and len(set(known)) == 1:
            found.add(name)
    assert found == same
