"""Public models under each engine: right, refused or warned, and never silently wrong.

The reference is an eighth-order central difference of plain calls of the model in float64, and one
ordinary backward pass through it for the gradients of the parameters.
"""

import warnings
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, distributions

from fdsm.derivatives import (
    Autodiff,
    FiniteDifference,
    KinkWarning,
    PrecisionWarning,
    Taylor,
    WrongGradientWarning,
    central_nodes,
    stencil,
)
from fdsm.typing import Derivative

from .optional_models_cases import OPTIONAL
from .package_models_cases import PACKAGES
from .public_models_cases import Case, Model
from .torch_autograd_cases import AUTOGRAD
from .torch_functions_cases import FUNCTIONS
from .torch_models_cases import TORCH
from .torch_operations_cases import OPERATIONS
from .torch_wrappers_cases import WRAPPERS

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of other packages

CASES: dict[str, Case] = TORCH | OPERATIONS | WRAPPERS | FUNCTIONS | AUTOGRAD | PACKAGES | OPTIONAL
ENGINES: dict[str, Derivative] = {
    "fd": FiniteDifference(),
    "autodiff": Autodiff(),
    "taylor": Taylor(),
    "fallback": Taylor(fallback=Autodiff()),
}
PAIRS = [(name, e) for name, case in CASES.items() for e in ENGINES if getattr(case, e)]

STEPS = (0.03, 0.01, 0.003, 0.001, 0.0003)
REFUSALS = (NotImplementedError, RuntimeError, TypeError, ValueError)
WARNINGS = (KinkWarning, PrecisionWarning, WrongGradientWarning)

Terms = dict[str, Tensor]
"""Value, slopes, curvatures and parameter gradients, for directions of unit length."""


class Reference(NamedTuple):
    """Reference terms and an estimate of their relative errors."""

    terms: Terms
    errors: dict[str, float]


QUICK = [name for name in CASES if name not in OPTIONAL and "compile" not in name]


@pytest.mark.parametrize("name", QUICK[::3])
def test_each_engine_is_right_or_refuses_or_warns(name: str) -> None:
    """A third of the models. With a fallback, an engine differs only where it would refuse."""
    for engine in ENGINES:
        if engine != "fallback" or CASES[name].taylor != "right":
            require_expected(name, engine)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "engine"), PAIRS)
def test_each_engine_is_right_or_refuses_or_warns_for_all_models(name: str, engine: str) -> None:
    require_expected(name, engine)


def require_expected(name: str, engine: str) -> None:
    """Require the outcome of the table, if the table has one."""
    expected = getattr(CASES[name], engine)
    if expected:
        outcome, detail = outcome_of(name, engine)
        assert outcome in (expected if isinstance(expected, tuple) else (expected,)), (
            engine,
            detail,
        )


def test_the_table_has_at_least_60_models_for_each_engine() -> None:
    for engine in ENGINES:
        assert sum(e == engine for _, e in PAIRS) >= 60


def outcome_of(name: str, engine: str) -> tuple[str, str]:
    """Return "right", "refused", "warned" or "silently wrong", and the evidence.

    A `KinkWarning` is about training. The result must be right almost everywhere all the same.
    Terms that were returned before a refusal must be right, too.
    """
    case = CASES[name]
    model = made(case)
    model(model.x)  # must work without an engine
    found: Terms = {}
    refusal = ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            length = case.step if engine == "fd" else 1.0
            for k, term in terms_of(ENGINES[engine], model, length):
                found[k] = term
        except REFUSALS as error:
            refusal = f"{type(error).__name__}: {error}"
    if refusal and not found:
        return "refused", refusal
    issued = [w for w in caught if issubclass(w.category, WARNINGS)]
    if any(not issubclass(w.category, KinkWarning) for w in issued):
        return "warned", f"{issued[0].category.__name__}: {issued[0].message}"
    reference = reference_of(name)
    rtol = case.fd_rtol if engine == "fd" else case.rtol
    assert max(reference.errors.values()) < rtol / 2, f"unusable reference: {reference.errors}"
    errors = {k: relative_error(term, reference.terms[k]) for k, term in found.items()}
    wrong = {k: f"{error:.1e}" for k, error in errors.items() if not error <= rtol}
    if wrong:
        return "silently wrong", f"relative errors {wrong}"
    if refusal:
        return "refused", refusal
    return "warned" if issued else "right", f"relative errors {errors}"


def made(case: Case) -> Model:
    torch.manual_seed(case.seed)
    return case.make()


def directions(x: Tensor) -> Tensor:
    """Return two unit directions for each example."""
    generator = torch.Generator().manual_seed(1)
    v = torch.randn(2, *x.shape, generator=generator).to(x.dtype)
    return v / v.flatten(2).norm(dim=2).view(2, -1, *[1] * (x.ndim - 1))


def weights(x: Tensor) -> Tensor:
    return torch.linspace(0.5, 1.5, len(x), dtype=x.dtype)


def terms_of(engine: Derivative, model: Model, length: float) -> Iterator[tuple[str, Tensor]]:
    """Yield the terms that an engine computes, with and without gradients."""
    f, x, cond = model.f, model.x, model.cond
    v, w = directions(x), weights(x)
    model.reset()
    if model.score:
        s, slope = engine.quadratic(f, x, length * v[0], *cond)
        yield "value", (s * v[0]).flatten(1).sum(1).detach()
        yield "slope", slope.detach() / length**2
        yield "gradient", gradient(w @ slope / length**2, model)
        return
    value, slope, curvature = engine.jet(f, x, length * v[0], 2, *cond)
    slope, curvature = slope / length, curvature / length**2
    yield "value", value.detach()
    yield "slope", slope.detach()
    yield "curvature", curvature.detach()
    yield "gradient", gradient(w @ slope + w.flip(0) @ curvature, model)
    model.reset()
    with torch.no_grad():
        slopes, total = engine.sliced(f, x, length * v, *cond)
    yield "slopes", slopes / length
    yield "sum of curvatures", total / length**2


def gradient(y: Tensor, model: Model) -> Tensor:
    """Return the gradients with respect to all parameters, in one vector."""
    for p in model.parameters:
        p.grad = None
    if model.parameters and y.requires_grad:
        y.backward()
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters]
    return torch.cat([torch.zeros(1), *(g.flatten().double() for g in gradients)])


@pytest.fixture(autouse=True)
def _validate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Distributions validate their arguments, as by default. Importing zuko disables it."""
    monkeypatch.setattr(distributions.Distribution, "_validate_args", True)


@cache
def reference_of(name: str) -> Reference:
    """Return differences of values at the step where they change least with the step."""
    model = made(CASES[name])
    model = model.precise or model
    found = [stencil_terms(model, step) for step in STEPS]
    terms, errors = {}, {}
    for k in found[0]:
        changes = [relative_error(a[k], b[k]) for a, b in pairwise(found)]
        best = min(range(len(changes)), key=changes.__getitem__)
        terms[k], errors[k] = found[best + 1][k], changes[best]
    return Reference(terms, errors)


def stencil_terms(model: Model, step: float) -> Terms:
    """Return all terms from values at nine points along each direction."""
    nodes = central_nodes(2, accuracy=8)
    rows = torch.tensor([[float(c) for c in row] for row in stencil(nodes)[:3]])
    scales = torch.tensor([[1.0], [1 / step], [1 / step**2]])
    v, w = directions(model.x), weights(model.x)

    def along(v: Tensor) -> Tensor:
        values = [model(model.x + float(node) * step * v) for node in nodes]
        if model.score:
            values = [(s * v).flatten(1).sum(1) for s in values]
        return scales * (rows @ torch.stack(values).double())

    value, slope, curvature = along(v[0])
    if model.score:
        return {
            "value": value.detach(),
            "slope": slope.detach(),
            "gradient": gradient(w @ slope, model),
        }
    with torch.no_grad():
        _, other_slope, other_curvature = along(v[1])
    return {
        "value": value.detach(),
        "slope": slope.detach(),
        "curvature": curvature.detach(),
        "gradient": gradient(w @ slope + w.flip(0) @ curvature, model),
        "slopes": torch.stack([slope.detach(), other_slope]),
        "sum of curvatures": curvature.detach() + other_curvature,
    }


def relative_error(a: Tensor, b: Tensor) -> float:
    """Return the largest difference, relative to the largest element of `b` or 0.001."""
    if a.shape != b.shape:
        return float("inf")
    return ((a - b).abs().max() / b.abs().max().clamp(min=1e-3)).item()
