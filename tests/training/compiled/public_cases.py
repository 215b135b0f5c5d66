"""Models and training loops as users of torch and other packages write them."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial

import rtdl_num_embeddings
import rtdl_revisiting_models as rtdl
import tabm
import torch
import torchmetrics
import zuko
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune
from torch.optim import lr_scheduler
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.checkpoint import checkpoint

from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.objectives import DSM, SSM, SlicedDSM
from fdsm.projections import Sphere
from fdsm.typing import Objective

FD, TAYLOR, AUTODIFF = SSM(FiniteDifference(), Sphere(0.1)), SSM(Taylor()), SSM(Autodiff())

Loop = Callable[[nn.Module, torch.optim.Optimizer], Iterator[None]]
"""What a training loop does after each update."""


def nothing(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[None]:
    while True:
        yield


@dataclass(frozen=True)
class Case:
    """A model, how it is trained, and what compiling its step should do.

    Attributes:
        build: Builds the model.
        objective: The objective, or `None` for the mean square of the model.
        optimizer: Builds the optimizer.
        loop: What the loop does after each update.
        shape: The shape of a row.
        labels: Whether rows have an integer label.
        around: The context of each update.
        refused: Words of the warning if the step runs eagerly, at first or after a change.
        rtol: Largest accepted relative difference of losses.
    """

    build: Callable[[], nn.Module]
    objective: Objective | None = DSM(0.3)
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.Adam
    loop: Loop = nothing
    shape: tuple[int, ...] = (3,)
    labels: bool = False
    around: Callable[[], AbstractContextManager[object]] = field(default=nullcontext)
    refused: str | None = None
    rtol: float = 1e-7

    def loss(self, model: nn.Module) -> Callable[..., Tensor]:
        objective = self.objective
        if objective is None:
            return lambda *arguments: model(*arguments[:-2]).square()
        return lambda *arguments: objective(model, *arguments[:-2], generator=arguments[-2])


class Value(nn.Module):
    """The sum of the outputs of a network, as an energy."""

    def __init__(self, net: nn.Module, **options: object) -> None:
        super().__init__()
        self.net, self.options = net, options

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.net(x, **self.options)
        return y.flatten(1).sum(1)


class Flow(nn.Module):
    def __init__(self, flow: nn.Module) -> None:
        super().__init__()
        self.flow = flow

    def forward(self, x: Tensor) -> Tensor:
        density: Tensor = self.flow().log_prob(x)
        return density


class Recurrent(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.net(x.unsqueeze(2))[0]
        return y.sum((1, 2))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.net = nn.Linear(1, 8), nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x.unsqueeze(2))
        return self.net(h, h, h, need_weights=False)[0].square().sum((1, 2))


class Labeled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.net = nn.Embedding(6, 3), nn.Linear(3, 1)

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        y: Tensor = self.net((x + self.embedding(label)).tanh())
        return y.squeeze(1)


class OneHot(Labeled):
    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        codes = nn.functional.one_hot(label).to(x)  # as many columns as the largest label
        return super().forward(x, label) * codes.shape[1]


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = perceptron()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = checkpoint(self.net, x, use_reentrant=False)
        return y


class Square(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * x

    @staticmethod
    def setup_context(
        ctx: "torch.autograd.function.FunctionCtx", inputs: tuple[Tensor], output: Tensor
    ) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: "torch.autograd.function.FunctionCtx", gradient: Tensor) -> Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return 2 * x * gradient


class NumpySquare(Square):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.from_numpy(x.detach().numpy() ** 2)


class WithFunction(nn.Module):
    def __init__(self, function: type[torch.autograd.Function]) -> None:
        super().__init__()
        self.net, self.function = nn.Linear(3, 4), function

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.function.apply(self.net(x))  # type: ignore[no-untyped-call]
        return y.sum(1)


class HalfPrecision(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = perceptron().float()

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            y: Tensor = self.net(x.float())
        return y.double()


class Ensemble(nn.Module):
    """Three networks evaluated by `vmap`, as in the tutorial of torch."""

    def __init__(self) -> None:
        super().__init__()
        parameters, _ = torch.func.stack_module_state([perceptron() for _ in range(3)])
        self.names = list(parameters)
        self.stacked = nn.ParameterList(p.detach() for p in parameters.values())
        self.base = [perceptron().to("meta")]

    def forward(self, x: Tensor) -> Tensor:
        named = dict(zip(self.names, self.stacked, strict=True))
        call = lambda p: torch.func.functional_call(self.base[0], p, (x,))
        y: Tensor = torch.func.vmap(call)(named)
        return y.mean(0)


class Kernel(nn.Module):
    """A kernel density with a learned covariance."""

    def __init__(self) -> None:
        super().__init__()
        self.points, self.factor = nn.Parameter(torch.randn(5, 3)), nn.Parameter(torch.eye(3))

    def forward(self, x: Tensor) -> Tensor:
        covariance = self.factor @ self.factor.T + 0.1 * torch.eye(3, dtype=x.dtype)
        z = torch.linalg.solve(covariance, (x[:, None] - self.points).mT).mT
        return torch.logsumexp(-z.square().sum(2), 1) - torch.linalg.slogdet(covariance)[1]


class Sorted(nn.Module):
    """A function of sets, with the largest features."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(1, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = self.net(x.sort(1).values.unsqueeze(2)).tanh()
        return h.topk(2, 1).values.sum((1, 2))


class Spectral(nn.Module):
    """Complex weights in the frequency domain, as in a Fourier neural operator."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 2))

    def forward(self, x: Tensor) -> Tensor:
        frequencies = torch.fft.rfft(x) * torch.view_as_complex(self.weight)
        return torch.fft.irfft(frequencies, n=3).sin().sum(1)


class Cached(nn.Module):
    """Keeps its last features for later, as many models of packages do."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.features = perceptron(), None

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.net(x)
        self.features = y.detach()
        return y


class Metered(nn.Module):
    """Holds a metric of torchmetrics, which the loop updates."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.metric = perceptron(), torchmetrics.MeanMetric()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.net(x)
        return y


def perceptron(activation: nn.Module | None = None) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 8), activation or nn.SiLU(), nn.Linear(8, 1), nn.Flatten(0))


def convolution(norm: nn.Module) -> nn.Module:
    return Value(nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), norm, nn.SiLU(), nn.AvgPool2d(2)))


def tied() -> nn.Module:
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
    net[2].weight = net[0].weight  # type: ignore[union-attr]
    return Value(net)


def old_weight_norm() -> nn.Module:
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        return Value(nn.utils.weight_norm(nn.Linear(3, 4)))  # type: ignore[no-untyped-call]


def pruned() -> nn.Module:
    layer = nn.Linear(3, 4)
    prune.random_unstructured(layer, "weight", 0.5)  # type: ignore[no-untyped-call]
    return Value(layer)


def transformer(dropout: float) -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    return Value(nn.Sequential(nn.Unflatten(1, (3, 1)), nn.Linear(1, 8), encoder))


def scripted() -> nn.Module:
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        return torch.jit.script(perceptron())


def numeric(embeddings: nn.Module) -> nn.Module:
    return Value(nn.Sequential(embeddings, nn.Flatten(), nn.Linear(12, 1)))


def scheduled(kind: Callable[..., object]) -> Loop:
    def loop(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[None]:
        scheduler = kind(optimizer)
        while True:
            yield
            scheduler.step()  # type: ignore[attr-defined]

    return loop


def plateau(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[None]:
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    while True:
        yield
        scheduler.step(1.0)


def swa(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[None]:
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    while True:
        yield
        averaged.update_parameters(model)


def accumulation(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Add the gradient of another loss before the next step, which discards it."""
    while True:
        yield
        model(torch.ones(2, 3)).sum().backward()


def penalty(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Project the weights after each step."""
    while True:
        yield
        with torch.no_grad():
            for p in model.parameters():
                p.clamp_(-0.3, 0.3)


def annealed(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Anneal the slope of an activation, a Python number."""
    while True:
        yield
        model[1].negative_slope *= 0.9  # type: ignore[index,operator]


def evaluated(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Validate in evaluation mode."""
    while True:
        yield
        model.eval()
        model(torch.ones(2, 3))
        model.train()


def metered(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[None]:
    while True:
        yield
        model.metric.update(1.0)  # type: ignore[operator,union-attr]


def unfrozen(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[None]:
    model[0].requires_grad_(False)  # type: ignore[index]
    for _ in range(10):
        yield
    model[0].requires_grad_()  # type: ignore[index]
    while True:
        yield


def reloaded(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Go back to earlier weights and an earlier state of the optimizer."""
    for i in range(1000):
        yield
        if i == 5:
            weights = {k: t.clone() for k, t in model.state_dict().items()}
            state = optimizer.state_dict()
        if i == 10:
            model.load_state_dict(weights)
            optimizer.load_state_dict(state)


IMAGE = (1, 4, 4)
HOOKS = "has hooks, which a graph does not call"
CHANGES = "changes its buffers or other state"
DRAWS = "random numbers are drawn inside the model"

SLOW = {
    "zuko NSF",
    "transformer",
    "rtdl FT-Transformer",
    "attention",
    "GRU",
    "zuko GMM",
    "periodic embeddings",
    "LSTM",
    "batch norm in evaluation mode",
    "convolution, group norm",
    "linear algebra",
    "zuko MAF",
    "piecewise embeddings",
    "Fourier transform",
    "reloaded",
    "vmap",
    "ReduceLROnPlateau",
    "CosineAnnealingLR",
    "rtdl MLP",
    "NAdam",
    "Adagrad",
    "Adafactor",
    "RMSprop",
    "orthogonal weights",
    "instance norm",
}
"""Cases that take longer than a second, run with the compiler."""

CASES: dict[str, Case] = {
    "zuko NSF": Case(lambda: Flow(zuko.flows.NSF(3, transforms=1, hidden_features=(8,))), FD),
    "zuko MAF": Case(lambda: Flow(zuko.flows.MAF(3, transforms=1, hidden_features=(8,)))),
    "zuko NICE": Case(
        lambda: Flow(zuko.flows.NICE(3, transforms=1, hidden_features=(8,))),
        TAYLOR,
        refused="numbers in a tensor",
    ),
    "zuko GMM": Case(lambda: Flow(zuko.flows.GMM(3, components=2)), AUTODIFF),
    "tabm": Case(
        lambda: Value(
            tabm.TabM.make(n_num_features=3, d_out=1, k=2, n_blocks=1, d_block=8, dropout=0.0)
        ),
        FD,
        rtol=1e-5,  # Adam scales up gradients that are zero up to rounding
    ),
    "rtdl MLP": Case(
        lambda: Value(rtdl.MLP(d_in=3, d_out=1, n_blocks=1, d_block=8, dropout=0.0)), TAYLOR
    ),
    "rtdl ResNet": Case(
        lambda: Value(
            rtdl.ResNet(
                d_in=3,
                d_out=1,
                n_blocks=1,
                d_block=8,
                d_hidden=8,
                d_hidden_multiplier=None,
                dropout1=0.1,
                dropout2=0.0,
            )
        ),
        None,
        refused=DRAWS,
    ),
    "rtdl FT-Transformer": Case(
        lambda: Value(
            rtdl.FTTransformer(
                n_cont_features=3,
                cat_cardinalities=[],
                d_out=1,
                n_blocks=1,
                d_block=8,
                attention_n_heads=2,
                attention_dropout=0.0,
                ffn_d_hidden=8,
                ffn_d_hidden_multiplier=None,
                ffn_dropout=0.0,
                residual_dropout=0.0,
            ),
            x_cat=None,
        ),
        FD,
    ),
    "periodic embeddings": Case(
        lambda: numeric(rtdl_num_embeddings.PeriodicEmbeddings(3, 4, lite=False)), TAYLOR
    ),
    "piecewise embeddings": Case(
        lambda: numeric(rtdl_num_embeddings.LinearReLUEmbeddings(3, 4)), AUTODIFF
    ),
    "transformer": Case(lambda: transformer(0.0), FD),
    "transformer with dropout": Case(lambda: transformer(0.1), None, refused=DRAWS),
    "attention": Case(Attention, TAYLOR),
    "convolution, group norm": Case(lambda: convolution(nn.GroupNorm(2, 4)), TAYLOR, shape=IMAGE),
    "convolution, batch norm": Case(
        lambda: convolution(nn.BatchNorm2d(4)), None, shape=IMAGE, refused=CHANGES
    ),
    "batch norm in evaluation mode": Case(
        lambda: convolution(nn.BatchNorm2d(4).eval()), AUTODIFF, shape=IMAGE
    ),
    "instance norm": Case(lambda: convolution(nn.InstanceNorm2d(4, affine=True)), FD, shape=IMAGE),
    "GRU": Case(lambda: Recurrent(nn.GRU(1, 4, batch_first=True)), FD),
    "LSTM": Case(lambda: Recurrent(nn.LSTM(1, 4, batch_first=True))),
    "dropout": Case(lambda: perceptron(nn.Dropout(0.5)), None, refused=DRAWS),
    "random ReLU": Case(lambda: perceptron(nn.RReLU()), None, refused=DRAWS),
    "spectral norm": Case(
        lambda: Value(parametrizations.spectral_norm(nn.Linear(3, 4))), None, refused=CHANGES
    ),
    "spectral norm in evaluation mode": Case(
        lambda: Value(parametrizations.spectral_norm(nn.Linear(3, 4)).eval()), TAYLOR
    ),
    "weight norm": Case(lambda: Value(parametrizations.weight_norm(nn.Linear(3, 4))), FD),
    "weight norm by hooks": Case(old_weight_norm, None, refused=HOOKS),
    "orthogonal weights": Case(
        lambda: Value(parametrizations.orthogonal(nn.Linear(3, 3))), TAYLOR
    ),
    "pruned": Case(pruned, None, refused=HOOKS),
    "labels": Case(Labeled, TAYLOR, labels=True),
    "one-hot labels": Case(OneHot, None, labels=True, refused="numbers in a tensor"),
    "checkpoint": Case(Checkpointed, refused="a parameter that is not part of the module"),
    "autograd function": Case(lambda: WithFunction(Square), FD),
    "autograd function in NumPy": Case(lambda: WithFunction(NumpySquare), FD, refused="numbers"),
    "tied weights": Case(tied, TAYLOR),
    "bfloat16 inside": Case(HalfPrecision, None, rtol=0.01),
    "autocast outside": Case(
        perceptron, None, around=partial(torch.autocast, "cpu"), refused="autocast is enabled"
    ),
    "vmap": Case(Ensemble, FD),
    "linear algebra": Case(Kernel, TAYLOR),
    "sorting": Case(Sorted, FD),
    "Fourier transform": Case(Spectral, AUTODIFF),
    "features kept": Case(Cached, None, refused=CHANGES),
    "scripted": Case(scripted, FD, refused="cannot be compared"),
    "lazy": Case(lambda: Value(nn.LazyLinear(2)), None, torch.optim.SGD),
    "StepLR": Case(perceptron, FD, loop=scheduled(partial(lr_scheduler.StepLR, step_size=3))),
    "CosineAnnealingLR": Case(
        perceptron, TAYLOR, loop=scheduled(partial(lr_scheduler.CosineAnnealingLR, T_max=10))
    ),
    "OneCycleLR": Case(
        perceptron,
        loop=scheduled(partial(lr_scheduler.OneCycleLR, max_lr=0.1, total_steps=50)),
        refused="a setting of the optimizer has changed",
    ),
    "ReduceLROnPlateau": Case(perceptron, AUTODIFF, loop=plateau),
    "EMA of torch": Case(perceptron, loop=swa),
    "accumulation": Case(perceptron, FD, loop=accumulation),
    "clamped weights": Case(perceptron, DSM(0.3), torch.optim.SGD, penalty),
    "annealed activation": Case(
        lambda: perceptron(nn.LeakyReLU(0.5)),
        loop=annealed,
        refused="`negative_slope` of `1` has changed",
    ),
    "validation": Case(perceptron, SlicedDSM(0.3), loop=evaluated),
    "metric": Case(Metered, loop=metered, refused="of `metric` has changed"),
    "unfrozen": Case(perceptron, loop=unfrozen, refused="`requires_grad`"),
    "reloaded": Case(perceptron, loop=reloaded),
    "SGD, Nesterov": Case(
        perceptron, FD, partial(torch.optim.SGD, lr=0.01, momentum=0.9, nesterov=True)
    ),
    "RMSprop": Case(perceptron, TAYLOR, torch.optim.RMSprop),
    "NAdam": Case(perceptron, AUTODIFF, torch.optim.NAdam),
    "Adagrad": Case(perceptron, DSM(0.3), torch.optim.Adagrad),
    "Adafactor": Case(perceptron, DSM(0.3), torch.optim.Adafactor),
    "fused AdamW": Case(perceptron, DSM(0.3), partial(torch.optim.AdamW, fused=True)),
}
