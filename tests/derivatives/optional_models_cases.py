"""Models of packages that are not test dependencies. A case is skipped without its package."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from .public_models_cases import (
    KINK,
    NO_DOUBLE_BACKWARD,
    NO_RULE,
    ONLY_VALUES,
    REFUSED,
    Case,
    Model,
    density_of,
    log_density,
    package,
    perturbed,
)


class Precise(TorchFunctionMode):
    """Replaces float32 by float64 in the code of a model."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        function = Tensor.double if function is Tensor.float else function
        wider = lambda value: torch.float64 if value is torch.float32 else value
        options = {name: wider(value) for name, value in (kwargs or {}).items()}
        return function(*map(wider, args), **options)


def single_inside(model: Model) -> Model:
    """Give a model that computes in float32 inside a reference in float64."""

    def precise(x: Tensor) -> Tensor:
        with Precise():
            return model.f(x)

    model.precise = Model(precise, model.parameters, model.x)
    return model


SINGLE: dict[str, Any] = {"fd": "warned", "step": 1e-4, "rtol": 1e-3}
Make = Callable[[Any], Any]


def normflows(*flows: Make) -> Model:
    library = package("normflows")
    base = library.distributions.base.DiagGaussian(4)
    module = library.NormalizingFlow(base, [make(library) for make in flows]).double()
    module.log_prob(torch.randn(20, 4))  # initializes ActNorm
    return log_density(module.log_prob, module.eval(), torch.randn(3, 4) * 0.7)


def forward_flow(make: Make) -> Model:
    """Return the log-density of a normflows flow in its forward direction."""
    flow = make(package("normflows").flows).double()

    def density(x: Tensor) -> Tensor:
        z, log_det = flow(x)
        return log_det - z.square().sum(1) / 2

    return log_density(density, flow, torch.randn(3, 4) * 0.7)


def residual_flow() -> Model:
    """Return a residual flow in training mode, which records its log-determinant on a copy."""
    library = package("normflows")
    residual = library.flows.Residual(library.nets.LipschitzMLP([4, 6, 4], init_zeros=False))
    base = library.distributions.base.DiagGaussian(4)
    module = library.NormalizingFlow(base, [residual]).double()
    module.log_prob(torch.randn(5, 4))
    x = torch.randn(3, 4)

    def f(x: Tensor) -> Tensor:
        np.random.seed(0)  # the number of terms is drawn by numpy
        return module.log_prob(x)

    return Model(f, [], x, buffers=tuple(module.buffers()))


WRITES: dict[str, Any] = {"taylor": "refused", "fallback": ("right", "warned")}
"""For models that write into a plain tensor. A warning may precede the refusal."""
MASK = torch.tensor([1.0, 0.0, 1.0, 0.0])
NORMFLOWS: dict[str, Case] = {
    "normflows MaskedAffineFlow, ActNorm": Case(
        lambda: normflows(
            lambda nf: nf.flows.MaskedAffineFlow(MASK, *[nf.nets.MLP([4, 6, 4]) for _ in "st"]),
            lambda nf: nf.flows.ActNorm(4),
        ),
        **WRITES,
    ),
    "normflows AffineCouplingBlock": Case(
        lambda: normflows(
            lambda nf: nf.flows.AffineCouplingBlock(nf.nets.MLP([2, 6, 4])),
            lambda nf: nf.flows.InvertibleAffine(4),
        ),
        **WRITES,
    ),
    "normflows MaskedAffineAutoregressive": Case(
        lambda: normflows(lambda nf: nf.flows.MaskedAffineAutoregressive(4, 6)), **WRITES
    ),
    "normflows AutoregressiveRationalQuadraticSpline": Case(
        lambda: normflows(lambda nf: nf.flows.AutoregressiveRationalQuadraticSpline(4, 1, 6)),
        **WRITES,
    ),
    "normflows CoupledRationalQuadraticSpline": Case(
        lambda: normflows(lambda nf: nf.flows.CoupledRationalQuadraticSpline(4, 1, 6)), **WRITES
    ),
    "normflows Residual": Case(residual_flow, **REFUSED),
    "normflows Planar": Case(lambda: forward_flow(lambda flows: flows.Planar((4,))), **KINK),
    "normflows Radial": Case(lambda: forward_flow(lambda flows: flows.Radial((4,)))),
    "normflows BatchNorm": Case(
        lambda: forward_flow(lambda flows: flows.BatchNorm()), fd="refused", autodiff="refused"
    ),
}


def nflows(*transforms: Make, training: bool = False) -> Model:
    library = package("nflows.transforms")
    base = package("nflows.distributions").StandardNormal([4])
    composed = library.CompositeTransform([make(library) for make in transforms])
    flow = package("nflows.flows").Flow(composed, base)
    flow.log_prob(torch.randn(20, 4))
    return log_density(flow.log_prob, flow.train(training), torch.randn(3, 4) * 0.7)


def residual_net(before: int, after: int) -> nn.Module:
    nets = package("nflows.nn.nets")
    return nets.ResidualNet(before, after, 6, activation=functional.softplus)


def spline(name: str) -> Model:
    tails = {"tails": "linear", "tail_bound": 3.0}
    return nflows(lambda t: getattr(t, name)([1, 0, 1, 0], residual_net, **tails))


def nflows_batch_norm(training: bool) -> Model:
    layers = (lambda t: t.LULinear(4), lambda t: t.BatchNorm(4), lambda t: t.LogTanh())
    return nflows(*layers, training=training)


NFLOWS: dict[str, Case] = {
    "nflows AffineCouplingTransform": Case(
        lambda: nflows(
            lambda t: t.AffineCouplingTransform([1, 0, 1, 0], residual_net),
            lambda t: t.QRLinear(4, 4),
        )
    ),
    "nflows MaskedAffineAutoregressiveTransform": Case(
        lambda: nflows(lambda t: t.MaskedAffineAutoregressiveTransform(4, 6)), **KINK
    ),
    "nflows PiecewiseRationalQuadraticCouplingTransform": Case(
        lambda: spline("PiecewiseRationalQuadraticCouplingTransform"), **KINK
    ),
    "nflows PiecewiseCubicCouplingTransform": Case(
        lambda: spline("PiecewiseCubicCouplingTransform"), **KINK
    ),
    "nflows PiecewiseQuadraticCouplingTransform": Case(
        lambda: spline("PiecewiseQuadraticCouplingTransform"), **KINK
    ),
    "nflows SVDLinear, Sigmoid, Logit": Case(
        lambda: nflows(lambda t: t.SVDLinear(4, 2), lambda t: t.Sigmoid(), lambda t: t.Logit()),
        **KINK,
    ),
    "nflows BatchNorm, eval": Case(lambda: nflows_batch_norm(False)),
    "nflows BatchNorm, train": Case(
        lambda: nflows_batch_norm(True), fd="refused", autodiff="refused"
    ),
}


def pyro(name: str) -> Model:
    dist = package("pyro.distributions")
    transform = getattr(package("pyro.distributions.transforms"), name)(4)
    base = dist.Normal(torch.zeros(4), torch.ones(4)).to_event(1)
    f = lambda x: dist.TransformedDistribution(base, [transform.inv]).log_prob(x)
    return log_density(f, transform, torch.randn(3, 4) * 0.5)


PYRO: dict[str, Case] = {
    "pyro AffineAutoregressive": Case(lambda: pyro("affine_autoregressive"), **KINK),
    "pyro BatchNorm": Case(lambda: pyro("batchnorm"), fd="refused", autodiff="refused"),
    "pyro Planar": Case(lambda: pyro("planar"), **KINK),
    "pyro Spline": Case(lambda: pyro("spline"), **KINK),
    "pyro Sylvester": Case(lambda: pyro("sylvester")),
}


def x_transformer(**options: object) -> Model:
    library = package("x_transformers")
    encoder = library.Encoder(dim=8, depth=1, heads=2, attn_dim_head=8, **options)
    module = library.ContinuousTransformerWrapper(
        dim_in=3, dim_out=1, max_seq_len=8, attn_layers=encoder
    ).eval()
    return single_inside(density_of(module, 4, 3))


def hugging_face(name: str, **options: object) -> Model:
    """Return a transformer with random weights, as a function of its input embeddings."""
    library = package("transformers")
    config = getattr(library, f"{name}Config")(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        vocab_size=11, max_position_embeddings=16, **options,
    )  # fmt: skip
    module = getattr(library, f"{name}Model")(config).double().eval()
    return density_of(module, 4, 8, f=lambda x: module(inputs_embeds=x).last_hidden_state)


TRANSFORMERS: dict[str, Case] = {
    "x-transformers": Case(x_transformer, **SINGLE),
    "x-transformers, RMSNorm, GLU": Case(
        lambda: x_transformer(use_rmsnorm=True, ff_glu=True, ff_swish=True), **SINGLE
    ),
    "x-transformers, rotary": Case(lambda: x_transformer(rotary_pos_emb=True), **SINGLE),
    "transformers Bert": Case(lambda: hugging_face("Bert"), **NO_DOUBLE_BACKWARD),
    "transformers Bert, eager": Case(lambda: hugging_face("Bert", attn_implementation="eager")),
    "transformers GPT2": Case(lambda: hugging_face("GPT2"), **NO_DOUBLE_BACKWARD),
    "transformers Llama": Case(
        lambda: single_inside(hugging_face("Llama")), **SINGLE, **NO_DOUBLE_BACKWARD
    ),
    "transformers Llama, eager": Case(
        lambda: single_inside(hugging_face("Llama", attn_implementation="eager")), **SINGLE
    ),
    "transformers Mamba": Case(
        lambda: single_inside(hugging_face("Mamba", state_size=4)), **SINGLE, **NO_RULE
    ),
}


def graph(make: Make) -> Model:
    """Return a graph network on a ring of four nodes, which is the same for each example."""
    module = make(package("torch_geometric.nn")).double()
    ring = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])

    def f(x: Tensor) -> Tensor:
        edges = (ring[:, None] + 4 * torch.arange(len(x))[:, None]).flatten(1)
        return module(x.flatten(0, 1), edges).tanh().view(len(x), -1)

    return density_of(module, 4, 3, f=f)


def gaussian_process() -> Model:
    gpytorch = package("gpytorch")

    class Exact(gpytorch.models.ExactGP):
        def __init__(self, x: Tensor, y: Tensor, likelihood: nn.Module) -> None:
            super().__init__(x, y, likelihood)
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: Tensor) -> object:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    module = Exact(torch.randn(6, 3), torch.randn(6), likelihood).eval()
    return log_density(lambda x: module(x.unsqueeze(1)).mean.squeeze(1), module, torch.randn(3, 3))


def kernel(name: str) -> Model:
    module, centers = getattr(package("gpytorch").kernels, name)(), torch.randn(5, 3)
    f = lambda x: module(x, centers).to_dense().log().sum(1)
    return log_density(f, module, torch.randn(3, 3))


def neural_ode(solver: str) -> Model:
    solve = getattr(package("torchdiffeq"), solver)

    class Field(nn.Sequential):
        def forward(self, t: Tensor, x: Tensor) -> Tensor:
            return super().forward(x)

    module, times = Field(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 3)), torch.tensor([0.0, 1.0])
    options = {"method": "rk4", "options": {"step_size": 0.25}}
    return density_of(module, 3, f=lambda x: solve(module, x, times, **options)[-1])


def equivariant() -> Model:
    o3 = package("e3nn.o3")
    product = o3.FullyConnectedTensorProduct("0e + 1o", "0e + 1o", "3x0e")

    def f(x: Tensor) -> Tensor:
        h = o3.spherical_harmonics([0, 1], x, normalize=False)
        return product(h, h)

    return density_of(product, 3, f=f)


def filtered() -> Model:
    filters, module = package("kornia.filters"), nn.Conv2d(1, 2, 2)
    blur = lambda x: filters.gaussian_blur2d(x, (3, 3), (1.0, 1.0))
    return density_of(module, 1, 4, 4, f=lambda x: module(blur(x)) * module(filters.sobel(x)))


def unet() -> Model:
    module = package("diffusers").UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, block_out_channels=(8, 8),
        layers_per_block=1, norm_num_groups=2,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    ).double().eval()  # fmt: skip
    f = lambda x: module(x, torch.tensor(3.0)).sample
    return Model(f, perturbed(module), torch.randn(2, 1, 8, 8), score=True)


KERNEL: dict[str, Any] = {"taylor": "refused", "fallback": ("right", "refused")}
"""The package itself refuses to differentiate an input that says it requires no gradient."""
OTHERS: dict[str, Case] = {
    "torch-geometric GATConv": Case(lambda: graph(lambda g: g.GATConv(3, 4)), **KINK),
    "torch-geometric GCNConv": Case(lambda: graph(lambda g: g.GCNConv(3, 4))),
    "torch-geometric GINConv": Case(lambda: graph(lambda g: g.GINConv(nn.Linear(3, 4)))),
    "torch-geometric SAGEConv": Case(lambda: graph(lambda g: g.SAGEConv(3, 4))),
    "torch-geometric TransformerConv": Case(lambda: graph(lambda g: g.TransformerConv(3, 4))),
    "gpytorch ExactGP": Case(gaussian_process, **KERNEL),
    "gpytorch MaternKernel": Case(lambda: kernel("MaternKernel"), **ONLY_VALUES),
    "gpytorch RBFKernel": Case(lambda: kernel("RBFKernel"), **KERNEL),
    "gpytorch RQKernel": Case(lambda: kernel("RQKernel"), **KINK),
    "torchdiffeq odeint": Case(lambda: neural_ode("odeint"), **NO_RULE),
    "torchdiffeq odeint_adjoint": Case(lambda: neural_ode("odeint_adjoint"), **ONLY_VALUES),
    "e3nn FullyConnectedTensorProduct": Case(equivariant),
    "kornia filters": Case(filtered),
    "diffusers UNet2DModel": Case(unet, **NO_DOUBLE_BACKWARD),
}
OPTIONAL: dict[str, Case] = NORMFLOWS | NFLOWS | PYRO | TRANSFORMERS | OTHERS
