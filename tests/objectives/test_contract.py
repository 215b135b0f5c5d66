"""Properties of all objectives. A new objective adds one row to `CASES`."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from torch import Generator, Tensor
from torch.distributions import MultivariateNormal, Normal

from fdsm.derivatives import Autodiff, FiniteDifference, MissingRule, Taylor
from fdsm.noise import Arithmetic, ConstantNoise, Geometric, LogUniform
from fdsm.objectives import (
    DSM,
    MLE,
    MPF,
    NCE,
    SM,
    SSM,
    SSMVR,
    SUMO,
    Annealed,
    AnnealedDSM,
    AnnealedSlicedDSM,
    ApproximateBackprop,
    CurvaturePropagation,
    DualDSM,
    FisherInformation,
    FlowMatching,
    FokkerPlanck,
    GaussianProposal,
    GradientPenalty,
    MeanFlow,
    MissingDSM,
    MultiscaleDSM,
    NaiveFD,
    ScoreDSM,
    ScoreFokkerPlanck,
    SlicedDSM,
    ViaScore,
)
from fdsm.projections import Gaussian as GaussianDirections
from fdsm.projections import Rademacher, Sphere
from fdsm.typing import Objective
from tests import oracles
from tests.oracles import Expected, Gaussian
from tests.parameters import at_night

SIGMA, EPS = 0.5, 0.1
FD = FiniteDifference()
TAYLOR = Taylor()
LEVELS = Geometric(1.0, 0.1, 3)
SIGMAS = torch.tensor([1.0, 0.1**0.5, 0.1], dtype=torch.float64)


def log_weight(a: Tensor, x: Tensor, noise: Tensor) -> Tensor:
    """Return the weight of a linear latent-variable model whose marginal has precision `a`.

    $z ∼ N(0, I)$, $x|z ∼ N(z, (1/a - 1)I)$ and the exact posterior as encoder, so that every
    weight is the likelihood itself.
    """
    x, noise = x.flatten(1), noise.flatten(1)
    variance = 1 / a - 1
    z = a * x + (1 - a).sqrt() * noise
    prior = -z.square().sum(1) / 2
    likelihood = -((x - z).square() / variance).sum(1) / 2
    encoder = -((z - a * x).square() / (1 - a)).sum(1) / 2
    return prior + likelihood - encoder


VIEWS: dict[str, Callable[[Gaussian, Tensor], object]] = {
    "log_density": lambda model, x: model.log_density,
    "normalized": lambda model, x: model.normalized,
    "score": lambda model, x: model.score,
    "noisy": lambda model, x: model.noisy,
    "noisy_score": lambda model, x: model.noisy_score,
    "layers": lambda model, x: model.layers(x),
    "latent": lambda model, x: lambda x, noise: log_weight(model.a, x, noise),
}
"""The form of the Gaussian model that an objective takes."""


@dataclass(frozen=True)
class Case:
    """An objective, the view of the model it takes, and its mean in closed form.

    The `bias` is how far the closed form may be off by itself.
    """

    objective: Objective
    view: str
    expected: Expected
    precisions: tuple[float, ...] = (0.5, 1.0, 2.0)
    bias: float = 0.0


CASES = {
    "sm": Case(SM(Autodiff()), "log_density", oracles.sm),
    "sm-fd": Case(SM(FD, chunk=3), "log_density", oracles.sm),
    "sm-taylor": Case(SM(TAYLOR), "log_density", oracles.sm),
    "sm-taylor-chunks": Case(SM(TAYLOR, chunk=3), "log_density", oracles.sm),
    "ssm": Case(SSM(Autodiff(), GaussianDirections()), "log_density", oracles.sm),
    "ssm-rademacher": Case(SSM(Autodiff(), Rademacher(2.0)), "log_density", oracles.sm),
    "fd-ssm": Case(SSM(FD, Sphere(EPS)), "log_density", oracles.sm),
    "fd-ssm-serial": Case(SSM(FiniteDifference(False), Sphere(EPS)), "log_density", oracles.sm),
    "fd-ssm-several": Case(SSM(FD, Rademacher(EPS), 3), "log_density", oracles.sm),
    "fd-ssm-accurate": Case(SSM(FiniteDifference(accuracy=4)), "log_density", oracles.sm),
    "ssm-taylor": Case(SSM(TAYLOR, GaussianDirections()), "log_density", oracles.sm),
    "ssm-taylor-several": Case(SSM(TAYLOR, Rademacher(2.0), 3), "log_density", oracles.sm),
    "ssmvr": Case(SSMVR(Autodiff(), GaussianDirections()), "score", oracles.sm),
    "ssmvr-via-score": Case(
        ViaScore(SSMVR(Autodiff(), GaussianDirections())), "log_density", oracles.sm
    ),
    "fd-ssmvr": Case(SSMVR(FD, Sphere(EPS)), "score", oracles.sm),
    "fd-ssmvr-several": Case(SSMVR(FD, Rademacher(EPS), 3), "score", oracles.sm),
    "ssmvr-taylor": Case(SSMVR(TAYLOR, GaussianDirections()), "score", oracles.sm),
    "ssmvr-taylor-several": Case(SSMVR(TAYLOR, Sphere(1.0), 3), "score", oracles.sm),
    "dsm": Case(DSM(SIGMA), "log_density", oracles.dsm(SIGMA)),
    "dsm-score": Case(ScoreDSM(SIGMA), "score", oracles.dsm(SIGMA)),
    "sliced-dsm": Case(SlicedDSM(SIGMA, Autodiff()), "log_density", oracles.dsm(SIGMA)),
    "sliced-dsm-taylor": Case(SlicedDSM(SIGMA, TAYLOR), "log_density", oracles.dsm(SIGMA)),
    "fd-dsm": Case(SlicedDSM(SIGMA, FD, Sphere(EPS)), "log_density", oracles.dsm(SIGMA)),
    "fd-dsm-several": Case(
        SlicedDSM(SIGMA, FD, GaussianDirections(), 3), "log_density", oracles.dsm(SIGMA)
    ),
    "multiscale-dsm": Case(
        MultiscaleDSM(DSM(SIGMA), LEVELS), "log_density", oracles.multiscale_dsm(SIGMA, SIGMAS)
    ),
    "multiscale-fd-dsm": Case(
        MultiscaleDSM(SlicedDSM(SIGMA, FD), Arithmetic(0.5, 1.5, 3)),
        "log_density",
        oracles.multiscale_dsm(SIGMA, torch.tensor([0.5, 1.0, 1.5], dtype=torch.float64)),
    ),
    "annealed": Case(Annealed(SSMVR(FD), LEVELS), "score", oracles.annealed_sm(SIGMAS)),
    "annealed-taylor": Case(Annealed(SSMVR(TAYLOR), LEVELS), "score", oracles.annealed_sm(SIGMAS)),
    "annealed-dsm": Case(AnnealedDSM(LEVELS), "score", oracles.annealed_dsm(SIGMAS)),
    "annealed-sliced-dsm": Case(
        AnnealedSlicedDSM(LEVELS), "log_density", oracles.annealed_dsm(SIGMAS)
    ),
    "annealed-fd-dsm": Case(
        AnnealedSlicedDSM(LEVELS, FD, Rademacher(EPS), 3),
        "log_density",
        oracles.annealed_dsm(SIGMAS),
    ),
    "annealed-constant": Case(
        Annealed(SSM(FD), ConstantNoise(SIGMA)),
        "log_density",
        oracles.annealed_sm(torch.tensor([SIGMA], dtype=torch.float64)),
    ),
    "flow-matching": Case(FlowMatching(LEVELS), "score", oracles.flow_matching(SIGMAS)),
    "mean-flow": Case(MeanFlow(times=LEVELS), "score", oracles.mean_flow(SIGMAS, 0.25)),
    "mean-flow-fd": Case(MeanFlow(FD, LEVELS, 1.0), "score", oracles.mean_flow(SIGMAS, 1.0)),
    "mean-flow-autodiff": Case(
        MeanFlow(Autodiff(), LEVELS, 0.5), "score", oracles.mean_flow(SIGMAS, 0.5)
    ),
    "dual-dsm": Case(DualDSM(LEVELS), "noisy", oracles.dual_dsm(SIGMAS)),
    "fokker-planck": Case(FokkerPlanck(LEVELS), "noisy", oracles.fokker_planck(SIGMAS)),
    "fokker-planck-autodiff": Case(
        FokkerPlanck(LEVELS, Autodiff()), "noisy", oracles.fokker_planck(SIGMAS)
    ),
    "fokker-planck-directions": Case(
        FokkerPlanck(LEVELS, directions=2, projection=Sphere(0.1)),
        "noisy",
        oracles.fokker_planck(SIGMAS),
    ),
    "score-fokker-planck": Case(
        ScoreFokkerPlanck(LEVELS), "noisy_score", oracles.score_fokker_planck(SIGMAS)
    ),
    "score-fokker-planck-directions": Case(
        ScoreFokkerPlanck(LEVELS, Autodiff(), 2),
        "noisy_score",
        oracles.score_fokker_planck(SIGMAS),
    ),
    "missing-dsm": Case(
        MissingDSM(SIGMA, GaussianProposal(torch.zeros(4), torch.eye(4)), 2),
        "log_density",
        oracles.dsm(SIGMA),
    ),
    "mle": Case(MLE(), "normalized", oracles.mle),
    "nce": Case(NCE(FD, Sphere(1.0)), "log_density", oracles.nce(1.0)),
    "nce-small": Case(NCE(FD, Sphere(EPS)), "log_density", oracles.sm, bias=EPS**2),
    "mpf": Case(MPF(FD, Sphere(1.0)), "log_density", oracles.mpf(1.0)),
    "mpf-small": Case(MPF(FD, Sphere(EPS), 2), "log_density", oracles.mpf(EPS)),
    "naive": Case(NaiveFD(FD, Sphere(1.0)), "log_density", oracles.naive(1.0)),
    "naive-small": Case(NaiveFD(FD, Sphere(EPS)), "log_density", oracles.naive(EPS)),
    "approximate-backprop": Case(ApproximateBackprop(), "layers", oracles.sm),
    "curvature-propagation": Case(CurvaturePropagation(), "layers", oracles.sm),
    "sumo": Case(SUMO((4,)), "latent", oracles.sm, (0.3, 0.6, 0.9)),
    "sumo-fd-dsm": Case(
        SUMO((4,), SlicedDSM(SIGMA, FD)), "latent", oracles.dsm(SIGMA), (0.3, 0.6, 0.9)
    ),
    "sumo-taylor": Case(SUMO((4,), SSM(TAYLOR)), "latent", oracles.sm, (0.3, 0.6, 0.9)),
    "gradient-penalty": Case(GradientPenalty(Autodiff()), "log_density", oracles.squared_score),
    "gradient-penalty-fd": Case(
        GradientPenalty(FD, Rademacher(EPS), 2), "log_density", oracles.squared_score
    ),
    "gradient-penalty-taylor": Case(GradientPenalty(TAYLOR), "log_density", oracles.squared_score),
    "fisher-information": Case(FisherInformation(FD), "log_density", oracles.squared_score),
}
case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


MODELS = list(product([(4,), (1, 2, 2)], range(3)))
"""Shapes of an event, and places in `Case.precisions`."""


@case
@pytest.mark.parametrize("model", at_night(MODELS, but=[((4,), 0), ((1, 2, 2), 2)]), ids=str)
def test_mean_and_gradient_in_closed_form(
    case: Case, model: tuple[tuple[int, ...], int], generator: Generator
) -> None:
    event, index = model
    gaussian = Gaussian(case.precisions[index])
    means, slopes = [], []
    for x in torch.randn(20, 1000, *event, generator=generator):
        losses = case.objective(VIEWS[case.view](gaussian, x), x, generator=generator)
        assert losses.shape == (len(x),)
        means.append(losses.mean().detach())
        slopes.append(torch.autograd.grad(losses.mean(), gaussian.a)[0])
    expected = case.expected(gaussian.a, 4)
    (slope,) = torch.autograd.grad(expected, gaussian.a)
    for found, truth in ((means, expected), (slopes, slope)):
        sample = torch.stack(found)
        standard_error = sample.std() / len(sample) ** 0.5
        assert abs(sample.mean() - truth) < 5 * standard_error + case.bias + 1e-9


@case
def test_the_input_is_not_changed(case: Case) -> None:
    x = torch.randn(4, 4)
    before = x.clone()
    case.objective(VIEWS[case.view](Gaussian(0.7), x), x).sum().backward()
    assert torch.equal(x, before)
    assert (x.requires_grad, x.grad, x.grad_fn, x._version) == (False, None, None, 0)


@case
def test_results_depend_only_on_the_generator(case: Case) -> None:
    x = torch.randn(4, 4)
    model = VIEWS[case.view](Gaussian(0.7), x)
    first = case.objective(model, x, generator=Generator().manual_seed(1))
    state = torch.get_rng_state()
    torch.rand(3)
    second = case.objective(model, x, generator=Generator().manual_seed(1))
    torch.set_rng_state(state)
    assert torch.equal(first, second)
    case.objective(model, x, generator=Generator().manual_seed(1))
    assert torch.equal(torch.get_rng_state(), state), "the global generator was used"


@case
def test_integers_are_refused(case: Case) -> None:
    x = torch.ones(4, 4)
    with pytest.raises(TypeError, match=r"floating-point data but got torch\.int64"):
        case.objective(VIEWS[case.view](Gaussian(0.7), x), x.long())


@case
def test_numpy_arrays_are_refused(case: Case) -> None:
    x = torch.ones(4, 4)
    with pytest.raises(TypeError, match=r"got numpy.ndarray: use torch.from_numpy\(x\)"):
        case.objective(VIEWS[case.view](Gaussian(0.7), x), np.ones((4, 4)))


@pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if case.view in {"log_density", "normalized"}]
)
def test_distributions_are_log_densities(name: str) -> None:
    if name.startswith("annealed"):
        pytest.skip("needs a model that takes the noise level")
    if name == "missing-dsm":
        pytest.skip("has a proposal with four columns")
    objective, x = CASES[name].objective, torch.randn(5, 3)
    covariance = torch.tensor([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 0.5]])
    density = MultivariateNormal(torch.zeros(3), covariance)
    found, expected = (
        objective(f, x, generator=Generator().manual_seed(0)) for f in (density, density.log_prob)
    )
    assert torch.equal(found, expected)
    with pytest.raises(ValueError, match=r"wrap it in Independent\(dist, 1\)"):
        objective(Normal(torch.zeros(3), 1.0), x)


@pytest.mark.parametrize("kind", [NCE, MPF, NaiveFD])
def test_contrastive_objectives_need_finite_differences(kind: type) -> None:
    with pytest.raises(ValueError, match=r"must be a FiniteDifference, but is Taylor"):
        kind(TAYLOR)


@case
def test_data_that_are_not_finite_are_refused(case: Case) -> None:
    if isinstance(case.objective, MissingDSM):
        pytest.skip("takes rows with gaps")
    x = torch.ones(4, 4)
    x[1, 2] = torch.nan
    with pytest.raises(ValueError, match=r"data are not finite in rows \[1\] of 4"):
        case.objective(VIEWS[case.view](Gaussian(0.7), x), x)


@pytest.mark.parametrize("objective", [DSM(SIGMA), SlicedDSM(SIGMA, FD), ScoreDSM(SIGMA)])
def test_noise_of_another_shape_is_refused(objective: DSM | SlicedDSM | ScoreDSM) -> None:
    x = torch.ones(4, 4)
    with pytest.raises(ValueError, match=r"noise .* must have that shape, but has \(4,\)"):
        objective.at(
            Gaussian(0.7).score, x, torch.ones(4), *([x] * isinstance(objective, SlicedDSM))
        )


WITH_SHAPES = {name: case for name, case in CASES.items() if case.view != "layers"}


@pytest.mark.parametrize("case", WITH_SHAPES.values(), ids=WITH_SHAPES)
def test_models_of_the_wrong_shape_are_refused(case: Case) -> None:
    x = torch.randn(4, 4)
    f = VIEWS[case.view](Gaussian(0.7), x)
    with pytest.raises(ValueError, match=r"must return|must have shape"):
        case.objective(lambda x, *cond: f(x, *cond)[:, None], x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@case
def test_losses_have_the_dtype_of_the_data(case: Case, dtype: torch.dtype) -> None:
    x = torch.randn(4, 4).to(dtype)
    model = Gaussian(0.7).to(dtype)
    assert case.objective(VIEWS[case.view](model, x), x).dtype == dtype


CONDITIONAL = {name: case for name, case in CASES.items() if case.view != "layers"}


@pytest.mark.parametrize("case", CONDITIONAL.values(), ids=CONDITIONAL)
def test_conditions_reach_the_model_row_by_row(case: Case) -> None:
    """A model of precision `c` for each row is the model of that precision for that row."""
    x, precisions = torch.randn(3, 4), torch.tensor([0.3, 0.6, 0.9])

    def conditioned(x: Tensor, *cond: Tensor) -> Tensor:
        c = cond[-1]
        rows = [
            VIEWS[case.view](Gaussian(a.item()), x)(
                x[i : i + 1], *(k[i : i + 1] for k in cond[:-1])
            )
            for i, a in enumerate(c)
        ]
        return torch.cat(rows)

    actual = case.objective(conditioned, x, precisions, generator=Generator().manual_seed(1))
    for i, a in enumerate(precisions):
        f = VIEWS[case.view](Gaussian(a.item()), x)
        whole = case.objective(f, x, generator=Generator().manual_seed(1))
        torch.testing.assert_close(actual[i], whole[i], rtol=1e-6, atol=1e-8)


def test_several_directions_reduce_the_variance(generator: Generator) -> None:
    x = torch.zeros(20_000, 4)
    f = lambda x: -(x.square() * torch.tensor([1.0, 2.0, 3.0, 4.0])).sum(1) / 2
    spread = [SSM(FD, Sphere(EPS), n)(f, x, generator=generator).std().item() for n in (1, 4, 16)]
    assert spread[0] / spread[1] == pytest.approx(2, rel=0.1)
    assert spread[1] / spread[2] == pytest.approx(2, rel=0.1)


def test_zero_directions_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one direction per example, but got 0"):
        SSM(directions=0)(Gaussian(1.0).log_density, torch.ones(2, 3))


@pytest.mark.parametrize(
    "objective",
    [SSM(), SSMVR(), SlicedDSM(SIGMA), SM(), GradientPenalty(), FisherInformation()],
    ids=lambda objective: type(objective).__name__,
)
def test_the_default_engine_is_taylor_mode_and_works_with_any_model(
    objective: SSM | SSMVR | SlicedDSM | SM | GradientPenalty | FisherInformation,
    generator: Generator,
) -> None:
    x = torch.randn(5, 4, generator=generator)
    score = isinstance(objective, SSMVR)
    with_rules = lambda x: -(x**3) if score else x.pow(4).sum(1)
    without = lambda x: with_rules(x) + 0 * torch.mvlgamma(x.square() + 5, 2).sum()
    assert objective.derivative == Taylor(fallback=Autodiff())
    with pytest.raises(MissingRule):
        replace(objective, derivative=Taylor())(without, x)
    expected = replace(objective, derivative=Autodiff())
    for model in (with_rules, without):
        losses = [o(model, x, generator=Generator().manual_seed(1)) for o in (objective, expected)]
        torch.testing.assert_close(*losses)


WITH_ENGINE = [
    SSM, SSMVR, SM, MeanFlow, partial(SlicedDSM, 0.1), partial(AnnealedSlicedDSM, LEVELS),
    GradientPenalty, FisherInformation, NCE,
]  # fmt: skip


@pytest.mark.parametrize("build", WITH_ENGINE)
def test_arguments_are_checked_when_an_objective_is_built(build: Callable[..., Objective]) -> None:
    with pytest.raises(
        TypeError,
        match=r"derivative must be an engine such as Taylor\(\), but got the class "
        r"FiniteDifference: add parentheses",
    ):
        build(FiniteDifference)
    for wrong in ("fd", Sphere(), None):
        with pytest.raises(TypeError, match=r"must be an engine such as Taylor\(\), but got "):
            build(wrong)
    if build not in {SM, MeanFlow}:
        with pytest.raises(TypeError, match="projection must be a projection such as Sphere"):
            build(FiniteDifference(), Sphere)
    if build not in {SM, MeanFlow}:
        for count in (0, "4", 1.5):
            with pytest.raises(ValueError, match="at least one direction per example, but got"):
                build(directions=count)


WITH_LEVELS = [
    AnnealedDSM, AnnealedSlicedDSM, DualDSM, FokkerPlanck, ScoreFokkerPlanck, FlowMatching,
    partial(MeanFlow, FD), partial(Annealed, SSMVR()), partial(MultiscaleDSM, DSM(0.1)),
]  # fmt: skip


@pytest.mark.parametrize("build", WITH_LEVELS)
@pytest.mark.parametrize("wrong", [0.5, Taylor(), LogUniform])
def test_levels_are_checked_when_an_objective_is_built(
    build: Callable[..., Objective], wrong: object
) -> None:
    with pytest.raises(
        TypeError,
        match=r"(levels|times) must be a distribution such as LogUniform\(10.0, 0.01\), but got",
    ):
        build(wrong)


@pytest.mark.parametrize("wrong", ["a", Taylor(), 0.0, -1.0, float("inf"), float("nan")])
def test_a_level_is_a_positive_number(wrong: float) -> None:
    for build in (DSM, SlicedDSM, ScoreDSM, ConstantNoise):
        with pytest.raises(ValueError, match="noise levels must be positive numbers, but got"):
            build(wrong)
