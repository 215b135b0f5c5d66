"""Models of public packages: Taylor and Autodiff agree to ten digits, also in their gradients.

`tests/derivatives/test_public_models.py` has many more models and all engines, against a stencil
of values, which is less precise. A package that is not installed is skipped.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, distributions, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from fdsm.derivatives import Autodiff, Jet, MissingRule, Taylor

from .agreement import assert_agrees

Density = Callable[[Tensor], Tensor]

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of other packages


@pytest.fixture(autouse=True)
def _validate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Distributions validate their arguments, as by default. Importing zuko disables it."""
    monkeypatch.setattr(distributions.Distribution, "_validate_args", True)


def assert_model_agrees(f: Density, x: Tensor, model: nn.Module, rtol: float = 1e-10) -> None:
    """Compare second derivatives and sums of curvatures along three directions."""

    def twice_differentiable(x: Tensor) -> Tensor:
        if isinstance(x, Jet):
            return f(x)
        with sdpa_kernel(SDPBackend.MATH):  # other kernels have no double backward
            return f(x)

    parameters = perturbed(model).parameters()
    assert_agrees(twice_differentiable, x, *parameters, orders=(2,), directions=(3,), rtol=rtol)


def perturbed(model: nn.Module) -> nn.Module:
    """Move the parameters of a model, since many start at zero."""
    generator = Generator().manual_seed(2)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape, generator=generator), alpha=0.1)
    return model


@pytest.mark.parametrize("name", ["GF", "MAF", "NAF", "NSF"])
def test_zuko(name: str, generator: Generator) -> None:
    zuko = pytest.importorskip("zuko")
    options = {} if name == "GF" else {"hidden_features": (8, 8), "transforms": 2}
    flow = getattr(zuko.flows, name)(3, **options)
    x = torch.randn(4, 3, generator=generator)
    assert_model_agrees(lambda x: flow().log_prob(x), x, flow)


def test_a_flow_with_its_own_backward_pass_is_refused(generator: Generator) -> None:
    zuko = pytest.importorskip("zuko")
    flow = zuko.flows.CNF(3, hidden_features=(8,))
    x, v = torch.randn(2, 4, 3, generator=generator)
    f = lambda x: flow().log_prob(x)
    with pytest.raises(MissingRule, match=r"custom `autograd\.Function`"):
        Taylor().jet(f, x, v, 2)
    for engine in (Taylor(fallback=Autodiff()), Autodiff()):
        with pytest.raises(RuntimeError, match="backward pass that autograd does not record"):
            engine.jet(f, x, v, 2)


def test_normflows_radial(generator: Generator) -> None:
    flow = pytest.importorskip("normflows").flows.Radial((4,))

    def density(x: Tensor) -> Tensor:
        z, log_det = flow(x)
        return log_det - z.square().sum(1) / 2

    assert_model_agrees(density, torch.randn(5, 4, generator=generator), flow.double())


def test_normflows_gaussian_mixture(generator: Generator) -> None:
    model = pytest.importorskip("normflows").distributions.base.GaussianMixture(3, 4)
    assert_model_agrees(model.log_prob, torch.randn(5, 4, generator=generator), model.double())


def _residual_network(before: int, after: int) -> nn.Module:
    nets = pytest.importorskip("nflows.nn.nets")
    return nets.ResidualNet(before, after, 8, activation=functional.softplus)


NFLOWS: dict[str, Callable[[Any], list[Any]]] = {
    "autoregressive spline": lambda t: [
        t.MaskedPiecewiseRationalQuadraticAutoregressiveTransform(
            4, 8, num_bins=5, tails="linear", tail_bound=3.0
        )
    ],
    "affine coupling": lambda t: [
        t.AffineCouplingTransform([1, 0, 1, 0], _residual_network),
        t.QRLinear(4, 4),
        t.BatchNorm(4),
    ],
    "squashed": lambda t: [t.HouseholderSequence(4, 3), t.Sigmoid(), t.Logit()],
}


@pytest.mark.parametrize("name", NFLOWS)
def test_nflows(name: str, generator: Generator) -> None:
    nflows = pytest.importorskip("nflows.flows")
    transforms = pytest.importorskip("nflows.transforms")
    base = pytest.importorskip("nflows.distributions").StandardNormal([4])
    composed = transforms.CompositeTransform(NFLOWS[name](transforms))
    flow = nflows.Flow(composed, base).eval()
    assert_model_agrees(flow.log_prob, torch.randn(4, 4, generator=generator), flow)


@pytest.mark.parametrize(("first", "activation"), [(True, "gelu"), (False, "relu")])
def test_transformer_encoder_of_torch(first: bool, activation: str, generator: Generator) -> None:
    layer = nn.TransformerEncoderLayer(
        8, 2, 16, activation=activation, batch_first=True, norm_first=first
    )
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(3, 4, 8, generator=generator)
    assert_model_agrees(lambda x: encoder(x).square().mean((1, 2)), x, encoder)


@pytest.mark.parametrize("option", ["attn_qk_norm", "alibi_pos_bias"])
def test_x_transformers(option: str, generator: Generator) -> None:
    library = pytest.importorskip("x_transformers")
    encoder = library.Encoder(dim=16, depth=1, heads=2, attn_dim_head=8, **{option: True})
    model = library.ContinuousTransformerWrapper(
        dim_in=3, dim_out=1, max_seq_len=8, attn_layers=encoder
    ).eval()
    x = torch.randn(3, 5, 3, generator=generator)
    f = lambda x: model(x).mean((1, 2))
    assert_model_agrees(f, x, model, rtol=1e-6)  # it computes attention in float32


def test_ft_transformer(generator: Generator) -> None:
    model = pytest.importorskip("rtdl_revisiting_models").FTTransformer(
        n_cont_features=4, cat_cardinalities=[], d_out=1, n_blocks=2, d_block=8,
        attention_n_heads=2, attention_dropout=0.1, ffn_d_hidden=None, ffn_d_hidden_multiplier=2,
        ffn_dropout=0.1, residual_dropout=0.1,
    ).eval()  # fmt: skip
    x = torch.randn(4, 4, generator=generator)
    assert_model_agrees(lambda x: model(x, None).squeeze(1), x, model)


def test_resnet_for_tables(generator: Generator) -> None:
    model = pytest.importorskip("rtdl_revisiting_models").ResNet(
        d_in=4, d_out=1, n_blocks=2, d_block=8, d_hidden=None, d_hidden_multiplier=2.0,
        dropout1=0.1, dropout2=0.1,
    ).eval()  # fmt: skip
    x = torch.randn(4, 4, generator=generator)
    assert_model_agrees(lambda x: model(x).squeeze(1), x, model)


def test_tabm_with_periodic_embeddings(generator: Generator) -> None:
    library, embeddings = map(pytest.importorskip, ("tabm", "rtdl_num_embeddings"))
    model = library.TabM(
        n_num_features=4, d_out=1, n_blocks=2, d_block=8, dropout=0.0, k=3,
        start_scaling_init="random-signs",
        num_embeddings=embeddings.PeriodicEmbeddings(4, 6, lite=False),
    )  # fmt: skip
    x = torch.randn(4, 4, generator=generator)
    assert_model_agrees(lambda x: model(x, None).mean((1, 2)), x, model)


positive = functional.softplus
DISTRIBUTIONS: dict[str, Callable[[Tensor, Tensor, Tensor], distributions.Distribution]] = {
    "gumbel": lambda a, b, c: distributions.Gumbel(a, positive(b)),
    "independent": lambda a, b, c: distributions.Independent(distributions.Normal(a, b.exp()), 1),
    "laplace": lambda a, b, c: distributions.Laplace(a, positive(b)),
    "logistic": lambda a, b, c: distributions.TransformedDistribution(
        distributions.Uniform(torch.zeros(4), torch.ones(4)),
        [distributions.SigmoidTransform().inv, distributions.AffineTransform(a, positive(b))],
    ),
    "low rank": lambda a, b, c: distributions.LowRankMultivariateNormal(
        a, b[:, None], positive(c)
    ),
    "mixture": lambda a, b, c: distributions.MixtureSameFamily(
        distributions.Categorical(logits=a),
        distributions.Independent(
            distributions.Normal(b[:, None] * c, positive(c).expand(4, 4)), 1
        ),
    ),
    "multivariate normal, cholesky": lambda a, b, c: distributions.MultivariateNormal(
        a, scale_tril=torch.diag(positive(b)) + torch.tril(torch.outer(c, c), -1)
    ),
    "normal": lambda a, b, c: distributions.Normal(a, positive(b)),
    "student": lambda a, b, c: distributions.StudentT(positive(a), b, positive(c)),
    "von mises": lambda a, b, c: distributions.VonMises(a, positive(b)),
}
ON_THE_UNIT_INTERVAL: dict[str, Callable[[Tensor, Tensor, Tensor], distributions.Distribution]] = {
    "beta": lambda a, b, c: distributions.Beta(positive(a), positive(b)),
    "chi squared": lambda a, b, c: distributions.Chi2(positive(a)),
    "continuous bernoulli": lambda a, b, c: distributions.ContinuousBernoulli(logits=a),
    "exponential": lambda a, b, c: distributions.Exponential(positive(a)),
    "f": lambda a, b, c: distributions.FisherSnedecor(positive(a), positive(b)),
    "half normal": lambda a, b, c: distributions.HalfNormal(positive(a)),
    "half cauchy": lambda a, b, c: distributions.HalfCauchy(positive(a)),
    "inverse gamma": lambda a, b, c: distributions.InverseGamma(positive(a), positive(b)),
    "kumaraswamy": lambda a, b, c: distributions.Kumaraswamy(positive(a), positive(b)),
    "relaxed bernoulli": lambda a, b, c: distributions.RelaxedBernoulli(
        torch.tensor(0.7), logits=a
    ),
}
ON_THE_SIMPLEX: dict[str, Callable[[Tensor, Tensor, Tensor], distributions.Distribution]] = {
    "dirichlet": lambda a, b, c: distributions.Dirichlet(positive(a)),
    "relaxed categorical": lambda a, b, c: distributions.RelaxedOneHotCategorical(
        torch.tensor(0.7), logits=a
    ),
}


@pytest.mark.parametrize("name", [*DISTRIBUTIONS, *ON_THE_UNIT_INTERVAL, *ON_THE_SIMPLEX])
def test_distributions_of_torch(name: str, generator: Generator) -> None:
    make = (DISTRIBUTIONS | ON_THE_UNIT_INTERVAL | ON_THE_SIMPLEX)[name]
    x, a, b, c = (torch.randn(*n, 4, generator=generator) for n in ((5,), (), (), ()))
    if name in ON_THE_UNIT_INTERVAL:
        x = x.sigmoid()
    points = (lambda x: x.softmax(1)) if name in ON_THE_SIMPLEX else (lambda x: x)

    def density(x: Tensor) -> Tensor:
        found = make(a, b, c).log_prob(points(x))
        return found.sum(1) if found.ndim > 1 else found

    assert_agrees(density, x, a, b, c)


def test_distributions_refuse_what_is_outside_their_support() -> None:
    gamma = distributions.Gamma(torch.ones(2), torch.ones(2))
    x = torch.tensor([[1.0, -1.0]])
    with pytest.raises(ValueError, match="support"):
        Taylor().jet(lambda x: gamma.log_prob(x).sum(1), x, torch.ones_like(x), 2)
