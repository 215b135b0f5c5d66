"""Models that nobody here wrote, as they are: flows, transformers, networks for tables, densities.

A library that is not installed is skipped.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, distributions, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from fdsm.derivatives import Autodiff, Jet, MissingRule, Taylor

from .agreement import assert_agrees

Density = Callable[[Tensor], Tensor]
Made = tuple[Density, nn.Module]

pytestmark = pytest.mark.filterwarnings("ignore")  # what others warn of is not ours to mend


class Decomposed(TorchFunctionMode):
    """Makes a truth of Autodiff: layer norms from their formula.

    Torch's own has third derivatives that are wrong, https://github.com/pytorch/pytorch/issues/175754.
    """

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        replaced = function is functional.layer_norm
        return (layer_norm if replaced else function)(*args, **(kwargs or {}))


def layer_norm(
    x: Tensor, shape: list[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    dims = tuple(range(-len(shape), 0))
    centred = x - x.mean(dims, keepdim=True)
    y = centred / (centred.square().mean(dims, keepdim=True) + eps).sqrt()
    return y * (1 if weight is None else weight) + (0 if bias is None else bias)


def assert_model_agrees(f: Density, x: Tensor, model: nn.Module, rtol: float = 1e-10) -> None:
    def decomposed(x: Tensor) -> Tensor:
        if isinstance(x, Jet):
            return f(x)
        with Decomposed(), sdpa_kernel(SDPBackend.MATH):  # the only kernel differentiable twice
            return f(x)

    parameters = trained(model).parameters()
    assert_agrees(decomposed, x, *parameters, orders=(2,), directions=(3,), rtol=rtol)


def trained(model: nn.Module) -> nn.Module:
    """Return a model with its parameters moved, since many start at zero."""
    generator = Generator().manual_seed(2)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape, generator=generator), alpha=0.1)
    return model


ZUKO = ["GF", "GMM", "MAF", "NAF", "NCSF", "NICE", "NSF", "RealNVP"]


@pytest.mark.parametrize("name", ZUKO)
def test_zuko(name: str, generator: Generator) -> None:
    zuko = pytest.importorskip("zuko")
    options = {} if name in {"GF", "GMM"} else {"hidden_features": (8, 8), "transforms": 2}
    flow = getattr(zuko.flows, name)(3, **options)
    x = torch.randn(4, 3, generator=generator)
    assert_model_agrees(lambda x: flow().log_prob(x), x, flow)


def test_zuko_with_a_condition(generator: Generator) -> None:
    zuko = pytest.importorskip("zuko")
    flow = zuko.flows.NSF(3, 2, hidden_features=(8,), transforms=2)
    x, v = torch.randn(2, 4, 3, generator=generator)
    context = torch.randn(4, 2, generator=generator)
    f = lambda x, context: flow(context).log_prob(x)
    found, truth = (engine.jet(f, x, v, 2, context) for engine in (Taylor(), Autodiff()))
    torch.testing.assert_close(found, truth, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["CNF", "SOSPF", "UNAF"])
def test_flows_that_differentiate_by_themselves_are_refused(
    name: str, generator: Generator
) -> None:
    zuko = pytest.importorskip("zuko")
    flow = getattr(zuko.flows, name)(3, hidden_features=(8,))
    x, v = torch.randn(2, 4, 3, generator=generator)
    f = lambda x: flow().log_prob(x)
    with pytest.raises(MissingRule, match=r"custom `autograd\.Function`"):
        Taylor().jet(f, x, v, 2)
    for engine in (Taylor(fallback=Autodiff()), Autodiff()):
        with pytest.raises(RuntimeError, match="backward pass that autograd does not record"):
            engine.jet(f, x, v, 2)


def _normflows(*flows: nn.Module) -> Made:
    base = pytest.importorskip("normflows")
    model = base.NormalizingFlow(base.distributions.base.DiagGaussian(4), list(flows))
    model = model.double()
    model.log_prob(torch.randn(20, 4))  # where ActNorm takes its parameters from
    return model.log_prob, model


def real_nvp() -> Made:
    nf = pytest.importorskip("normflows")
    mask = torch.tensor([1.0, 0.0, 1.0, 0.0])
    networks = [nf.nets.MLP([4, 8, 4]) for _ in range(4)]
    first = nf.flows.MaskedAffineFlow(mask, *networks[:2])
    second = nf.flows.MaskedAffineFlow(1 - mask, *networks[2:])
    return _normflows(first, nf.flows.ActNorm(4), second)


def glow() -> Made:
    nf = pytest.importorskip("normflows")
    coupling = nf.flows.AffineCouplingBlock(nf.nets.MLP([2, 8, 4]))
    return _normflows(coupling, nf.flows.Permute(4, mode="swap"), nf.flows.InvertibleAffine(4))


def autoregressive() -> Made:
    nf = pytest.importorskip("normflows")
    return _normflows(nf.flows.MaskedAffineAutoregressive(4, 8))


def autoregressive_spline() -> Made:
    nf = pytest.importorskip("normflows")
    spline = nf.flows.AutoregressiveRationalQuadraticSpline(4, 1, 8)
    return _normflows(spline, nf.flows.LULinearPermute(4))


def coupled_spline() -> Made:
    nf = pytest.importorskip("normflows")
    spline = nf.flows.CoupledRationalQuadraticSpline(4, 1, 8)
    return _normflows(spline, nf.flows.LULinearPermute(4))


def planar() -> Made:
    nf = pytest.importorskip("normflows")
    return _forwards(nf.flows.Planar((4,)))


def radial() -> Made:
    nf = pytest.importorskip("normflows")
    return _forwards(nf.flows.Radial((4,)))


def _forwards(flow: nn.Module) -> Made:
    """Return the density that a flow without an inverse gives to where it comes from."""

    def density(x: Tensor) -> Tensor:
        z, determinant = flow(x)
        return determinant - z.square().sum(1) / 2

    return density, flow


def gaussian_mixture() -> Made:
    nf = pytest.importorskip("normflows")
    model = nf.distributions.base.GaussianMixture(3, 4)
    return model.log_prob, model


@pytest.mark.parametrize(
    "make",
    [
        real_nvp,
        glow,
        autoregressive,
        autoregressive_spline,
        coupled_spline,
        planar,
        radial,
        gaussian_mixture,
    ],
)
def test_normflows(make: Callable[[], Made], generator: Generator) -> None:
    f, model = make()
    assert_model_agrees(f, torch.randn(5, 4, generator=generator), model.double())


def _residual_network(before: int, after: int) -> nn.Module:
    nets = pytest.importorskip("nflows.nn.nets")
    return nets.ResidualNet(before, after, 8, activation=functional.softplus)


NFLOWS: dict[str, Callable[[Any], list[Any]]] = {
    "autoregressive": lambda t: [
        t.MaskedAffineAutoregressiveTransform(4, 8),
        t.ReversePermutation(4),
    ],
    "autoregressive spline": lambda t: [
        t.MaskedPiecewiseRationalQuadraticAutoregressiveTransform(
            4, 8, num_bins=5, tails="linear", tail_bound=3.0
        )
    ],
    "coupled spline": lambda t: [
        t.PiecewiseRationalQuadraticCouplingTransform(
            [1, 0, 1, 0], _residual_network, tails="linear", tail_bound=3.0
        ),
        t.LULinear(4),
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


@pytest.mark.parametrize("first", [True, False], ids=["norm first", "norm last"])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_transformer_encoder_of_torch(first: bool, activation: str, generator: Generator) -> None:
    layer = nn.TransformerEncoderLayer(
        8, 2, 16, activation=activation, batch_first=True, norm_first=first
    )
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(3, 4, 8, generator=generator)
    assert_model_agrees(lambda x: encoder(x).square().mean((1, 2)), x, encoder)


def test_transformer_decoder_of_torch(generator: Generator) -> None:
    layer = nn.TransformerDecoderLayer(8, 2, 16, activation="gelu", batch_first=True)
    decoder = nn.TransformerDecoder(layer, 1).eval()
    x = torch.randn(3, 4, 8, generator=generator)
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    f = lambda x: decoder(x, 2 * x, tgt_mask=mask, tgt_is_causal=True).square().mean((1, 2))
    assert_model_agrees(f, x, decoder)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_rmsnorm": True, "ff_glu": True, "ff_swish": True},
        {"rotary_pos_emb": True},
        {"attn_qk_norm": True},
        {"alibi_pos_bias": True},
    ],
    ids=lambda options: ", ".join(options) or "plain",
)
def test_x_transformers(options: dict[str, bool], generator: Generator) -> None:
    library = pytest.importorskip("x_transformers")
    encoder = library.Encoder(dim=16, depth=1, heads=2, attn_dim_head=8, **options)
    model = library.ContinuousTransformerWrapper(
        dim_in=3, dim_out=1, max_seq_len=8, attn_layers=encoder
    ).eval()
    x = torch.randn(3, 5, 3, generator=generator)
    f = lambda x: model(x).mean((1, 2))
    assert_model_agrees(f, x, model, rtol=1e-6)  # its attention is in float32, whatever is given


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


@pytest.mark.parametrize("embedded", [False, True])
def test_tabm(embedded: bool, generator: Generator) -> None:
    library, embeddings = map(pytest.importorskip, ("tabm", "rtdl_num_embeddings"))
    periodic = embeddings.PeriodicEmbeddings(4, 6, lite=False) if embedded else None
    model = library.TabM(
        n_num_features=4, d_out=1, n_blocks=2, d_block=8, dropout=0.0, k=3,
        start_scaling_init="random-signs", num_embeddings=periodic,
    )  # fmt: skip
    x = torch.randn(4, 4, generator=generator)
    assert_model_agrees(lambda x: model(x, None).mean((1, 2)), x, model)


@pytest.fixture(autouse=True)
def _validating(monkeypatch: pytest.MonkeyPatch) -> None:
    """Distributions validate their arguments, as they do by default. Zuko switches this off."""
    monkeypatch.setattr(distributions.Distribution, "_validate_args", True)


positive = functional.softplus
DISTRIBUTIONS: dict[str, Callable[[Tensor, Tensor, Tensor], distributions.Distribution]] = {
    "cauchy": lambda a, b, c: distributions.Cauchy(a, positive(b)),
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
    "multivariate normal": lambda a, b, c: distributions.MultivariateNormal(
        a, torch.eye(4) + torch.outer(b, b)
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
    "gamma": lambda a, b, c: distributions.Gamma(positive(a), positive(b)),
    "half normal": lambda a, b, c: distributions.HalfNormal(positive(a)),
    "half cauchy": lambda a, b, c: distributions.HalfCauchy(positive(a)),
    "inverse gamma": lambda a, b, c: distributions.InverseGamma(positive(a), positive(b)),
    "kumaraswamy": lambda a, b, c: distributions.Kumaraswamy(positive(a), positive(b)),
    "log-normal": lambda a, b, c: distributions.LogNormal(a, positive(b)),
    "relaxed bernoulli": lambda a, b, c: distributions.RelaxedBernoulli(
        torch.tensor(0.7), logits=a
    ),
    "squashed normal": lambda a, b, c: distributions.TransformedDistribution(
        distributions.Normal(a, positive(b)),
        [distributions.TanhTransform(), distributions.AffineTransform(0.5, 0.5)],
    ),
    "weibull": lambda a, b, c: distributions.Weibull(positive(a), positive(b)),
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
