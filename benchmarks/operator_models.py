"""Operators on public models, for each engine: right, or refused, and never silently wrong.

`python -m benchmarks operator-models` writes a table of operators and engines by models. The truth
is nested `torch.autograd` in float64, for the values and for the gradients of the parameters.
Torch's own third derivatives of norms are wrong (https://github.com/pytorch/pytorch/issues/175754),
and fused attention has no second ones, so the truth computes both from elementary operations.
"""

import argparse
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import parametrizations
from torch.overrides import TorchFunctionMode

from fdsm import operators
from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.typing import Derivative

ENGINES: dict[str, Derivative] = {
    "Taylor": Taylor(),
    "Autodiff": Autodiff(),
    "FiniteDifference": FiniteDifference(accuracy=6),
}
TOLERANCE = {"Taylor": 1e-10, "Autodiff": 1e-10, "FiniteDifference": 1e-3}
"""Largest relative error of a value or a gradient that counts as right."""
STEPS = {"Taylor": (1.0,), "Autodiff": (1.0,), "FiniteDifference": (0.2, 0.1, 0.03, 0.01, 0.003)}
"""Steps to try. A difference is right if it is so with one of them."""
REFUSALS = (NotImplementedError, RuntimeError, TypeError, ValueError)
PARTIALS = [(), (0,), (1,), (0, 0), (0, 1), (0, 0, 1)]
ROWS = 3


class Call(nn.Module):
    """A module with its own way to be called."""

    def __init__(self, module: nn.Module, forward: Callable[..., Tensor]) -> None:
        super().__init__()
        self.module, self._forward = module, forward

    def forward(self, x: Tensor, *cond: Tensor) -> Tensor:
        """Call the module."""
        return self._forward(self.module, x, *cond)


@dataclass(frozen=True)
class Field:
    """A public model.

    Attributes:
        build: Builds a module `(B, *E), *cond -> (B, *O)`.
        shape: The event shape `E`.
        cond: Draws conditions; the first gets a direction in `jvp` if it has floating-point type.
    """

    build: Callable[[], nn.Module]
    shape: tuple[int, ...] = (3,)
    cond: Callable[[], tuple[Tensor, ...]] = tuple


def perceptron(*activation: nn.Module, width: int = 6) -> nn.Module:
    """Return a network with one hidden layer."""
    return nn.Sequential(nn.Linear(3, 6), *activation, nn.Linear(width, 3))


def tokens(attend: Callable[[nn.Module, Tensor], Tensor], module: nn.Module) -> nn.Module:
    """Return a network that attends between three coordinates, each embedded in four numbers."""
    parts = nn.ModuleDict({"in": nn.Linear(1, 4), "mix": module, "out": nn.Linear(4, 1)})

    def forward(parts: nn.ModuleDict, x: Tensor) -> Tensor:
        h = parts["in"](x[..., None])
        y: Tensor = parts["out"](attend(parts["mix"], h)).squeeze(2)
        return y

    return Call(parts, forward)


def fused(module: nn.Module, h: Tensor, is_causal: bool = False) -> Tensor:
    """Return scaled dot-product attention of two heads."""
    q, k, v = module(h).unflatten(2, (2, 6)).transpose(1, 2).chunk(3, 3)
    y: Tensor = functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
    return y.transpose(1, 2).flatten(2)


def timed(parts: nn.ModuleList, x: Tensor, t: Tensor) -> Tensor:
    """Return a velocity given the time, as a flow or a diffusion model does."""
    angles = t[:, None] * torch.tensor([1.0, 2.0, 4.0])
    h = functional.silu(parts[0](x) + parts[1](torch.cat([angles.sin(), angles.cos()], 1)))
    y: Tensor = parts[2](h)
    return y


def spectral_layer(module: nn.Module, x: Tensor) -> Tensor:
    """Return a layer of a Fourier neural operator."""
    modes = torch.fft.rfft(x)
    real, imaginary = module(torch.cat([modes.real, modes.imag], 1)).chunk(2, 1)
    return functional.gelu(torch.fft.irfft(torch.complex(real, imaginary), x.shape[1]) + x)


def flow(name: str, **options: object) -> nn.Module:
    """Return the log-density of a flow of zuko."""
    import zuko  # type: ignore[import-untyped]

    built = getattr(zuko.flows, name)(3, **options)
    return Call(built, lambda flow, x: flow().log_prob(x))


chain, image, line = nn.Sequential, (1, 2, 2), (1, 4)
small = {"hidden_features": (6,), "transforms": 2, "activation": nn.SiLU}
labels: Callable[[], tuple[Tensor, ...]] = lambda: (torch.tensor([0, 2, 1]),)
times: Callable[[], tuple[Tensor, ...]] = lambda: (torch.rand(ROWS) + 0.5,)
MODELS: dict[str, Field] = {
    "MLP, tanh": Field(lambda: perceptron(nn.Tanh())),
    "MLP, GELU": Field(lambda: perceptron(nn.GELU())),
    "MLP, SiLU": Field(lambda: perceptron(nn.SiLU())),
    "MLP, softplus": Field(lambda: perceptron(nn.Softplus())),
    "MLP, Mish": Field(lambda: perceptron(nn.Mish())),
    "MLP, sigmoid": Field(lambda: perceptron(nn.Sigmoid())),
    "MLP, GLU": Field(lambda: perceptron(nn.GLU(), width=3)),
    "MLP, softmax": Field(lambda: perceptron(nn.Softmax(1))),
    "MLP, log-sigmoid": Field(lambda: perceptron(nn.LogSigmoid())),
    "MLP, two outputs": Field(lambda: chain(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2))),
    "sinusoidal network": Field(lambda: Call(nn.Linear(3, 3), lambda m, x: (2 * m(x)).sin() * x)),
    "LayerNorm": Field(lambda: perceptron(nn.LayerNorm(6), nn.SiLU())),
    "RMSNorm": Field(lambda: perceptron(nn.RMSNorm(6), nn.SiLU())),
    "GroupNorm": Field(lambda: perceptron(nn.GroupNorm(2, 6), nn.SiLU())),
    "BatchNorm, eval": Field(lambda: perceptron(nn.BatchNorm1d(6), nn.Tanh()).eval()),
    "BatchNorm, train": Field(lambda: perceptron(nn.BatchNorm1d(6), nn.Tanh())),
    "InstanceNorm1d": Field(
        lambda: chain(nn.Conv1d(1, 2, 2), nn.InstanceNorm1d(2), nn.Tanh(), nn.Conv1d(2, 1, 1)),
        line,
    ),
    "weight_norm": Field(
        lambda: chain(parametrizations.weight_norm(nn.Linear(3, 5)), nn.Tanh(), nn.Linear(5, 3))
    ),
    "spectral_norm, eval": Field(
        lambda: chain(parametrizations.spectral_norm(nn.Linear(3, 3)), nn.Tanh()).eval()
    ),
    "Conv1d": Field(
        lambda: chain(nn.Conv1d(1, 3, 3, padding=1), nn.SiLU(), nn.Conv1d(3, 1, 1)), line
    ),
    "Conv2d, circular": Field(
        lambda: chain(
            nn.Conv2d(1, 3, 3, padding=1, padding_mode="circular"), nn.GELU(), nn.Conv2d(3, 1, 1)
        ),
        image,
    ),
    "ConvTranspose2d": Field(
        lambda: chain(nn.Conv2d(1, 2, 2), nn.Tanh(), nn.ConvTranspose2d(2, 1, 2)), image
    ),
    "depthwise convolution": Field(
        lambda: chain(
            nn.Conv2d(1, 4, 1),
            nn.Conv2d(4, 4, 3, padding=1, groups=4),
            nn.Mish(),
            nn.Conv2d(4, 1, 1),
        ),
        image,
    ),
    "Upsample, bilinear": Field(
        lambda: chain(
            nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.Conv2d(1, 2, 2),
            nn.Tanh(),
            nn.AvgPool2d(3),
        ),
        image,
    ),
    "PixelShuffle": Field(
        lambda: chain(
            nn.Conv2d(1, 4, 1), nn.PixelShuffle(2), nn.Tanh(), nn.Conv2d(1, 1, 2, stride=2)
        ),
        image,
    ),
    "MultiheadAttention": Field(
        lambda: tokens(
            lambda m, h: m(h, h, h, need_weights=False)[0],
            nn.MultiheadAttention(4, 2, batch_first=True),
        )
    ),
    "MultiheadAttention, weights": Field(
        lambda: tokens(lambda m, h: m(h, h, h)[0], nn.MultiheadAttention(4, 2, batch_first=True))
    ),
    "scaled dot-product attention": Field(lambda: tokens(fused, nn.Linear(4, 12))),
    "causal attention": Field(lambda: tokens(partial(fused, is_causal=True), nn.Linear(4, 12))),
    "TransformerEncoderLayer": Field(
        lambda: tokens(
            lambda m, h: m(h), nn.TransformerEncoderLayer(4, 2, 8, 0.0, "gelu", batch_first=True)
        )
    ),
    "TransformerEncoder, norm first": Field(
        lambda: tokens(
            lambda m, h: m(h),
            nn.TransformerEncoder(
                nn.TransformerEncoderLayer(
                    4, 2, 8, 0.0, "gelu", batch_first=True, norm_first=True
                ),
                1,
                enable_nested_tensor=False,
            ),
        )
    ),
    "TransformerDecoderLayer": Field(
        lambda: tokens(
            lambda m, h: m(h, h.tanh()),
            nn.TransformerDecoderLayer(4, 2, 8, 0.0, "gelu", batch_first=True),
        )
    ),
    "GRU": Field(lambda: tokens(lambda m, h: m(h)[0], nn.GRU(4, 4, batch_first=True))),
    "LSTM": Field(lambda: tokens(lambda m, h: m(h)[0], nn.LSTM(4, 4, batch_first=True))),
    "RNN": Field(lambda: tokens(lambda m, h: m(h)[0], nn.RNN(4, 4, batch_first=True))),
    "GRUCell": Field(lambda: chain(nn.GRUCell(3, 4), nn.Linear(4, 3))),
    "Bilinear": Field(lambda: Call(nn.Bilinear(3, 3, 3), lambda m, x: m(x.tanh(), x))),
    "velocity given the time": Field(
        lambda: Call(nn.ModuleList([nn.Linear(3, 6), nn.Linear(6, 6), nn.Linear(6, 3)]), timed),
        cond=times,
    ),
    "field given a label": Field(
        lambda: Call(
            nn.ModuleList([nn.Embedding(3, 3), nn.Linear(3, 3)]),
            lambda m, x, c: (m[1](x) * m[0](c)).tanh(),
        ),
        cond=labels,
    ),
    "Fourier neural operator": Field(lambda: Call(nn.Linear(4, 4), spectral_layer), (3,)),
    "log-determinant": Field(
        lambda: Call(
            nn.Linear(4, 4),
            lambda m, x: torch.logdet(m(x).view(-1, 2, 2) @ m(x).view(-1, 2, 2).mT + torch.eye(2)),
        ),
        (4,),
    ),
    "zuko MAF": Field(lambda: flow("MAF", **small)),
    "zuko NICE": Field(lambda: flow("NICE", **small)),
    "zuko RealNVP": Field(lambda: flow("RealNVP", **small)),
    "zuko GF": Field(lambda: flow("GF", transforms=2)),
}


class Elementary(TorchFunctionMode):
    """Mode in which norms are computed from operations that torch differentiates correctly."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        """Call the function, or its definition if it is a norm."""
        return DEFINITIONS.get(func, func)(*args, **(kwargs or {}))


def _layer_norm(
    x: Tensor,
    shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    dims = tuple(range(-len(shape), 0))
    z = x - x.mean(dims, keepdim=True)
    y = z * (z.square().mean(dims, keepdim=True) + eps).rsqrt()
    return y if weight is None or bias is None else y * weight + bias


def _group_norm(
    x: Tensor,
    groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    y = _layer_norm(x.view(len(x), groups, -1), (1,), eps=eps).view(x.shape)
    shape = (-1, *[1] * (x.ndim - 2))
    return y if weight is None or bias is None else y * weight.view(shape) + bias.view(shape)


def _instance_norm(x: Tensor, *_: object, eps: float = 1e-5, **__: object) -> Tensor:
    return _group_norm(x, x.shape[1], eps=eps)


DEFINITIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    functional.layer_norm: _layer_norm,
    functional.group_norm: _group_norm,
    functional.instance_norm: _instance_norm,
}


def grad(y: Tensor, x: Tensor) -> Tensor:
    """Return the gradient of a sum, zero if there is no dependence."""
    if not y.requires_grad:
        return torch.zeros_like(x)
    (result,) = torch.autograd.grad(y.sum(), x, create_graph=True, materialize_grads=True)
    return result


@dataclass(frozen=True)
class Inputs:
    """A model and the arguments of operators on it."""

    model: nn.Module
    x: Tensor
    v: Tensor
    cond: tuple[Tensor, ...]

    @property
    def directions(self) -> tuple[float | None, ...]:
        """Directions of the conditions."""
        return tuple(0.7 if c.is_floating_point() else None for c in self.cond)


def by_output(f: Callable[[Tensor, Inputs], Tensor]) -> Callable[[Inputs], Tensor]:
    """Return an operator of all outputs, given that of one output, by nested gradients."""

    def operator(at: Inputs) -> Tensor:
        y = at.model(at.x, *at.cond)
        parts = [f(output, at) for output in y.reshape(len(y), -1).unbind(1)]
        return torch.stack(parts, 1).view(*y.shape, *parts[0].shape[1:])

    return operator


def along(y: Tensor, at: Inputs) -> Tensor:
    """Return the slope along the direction in `x`."""
    return (grad(y, at.x) * at.v).flatten(1).sum(1)


def along_all(y: Tensor, at: Inputs) -> Tensor:
    """Return the slope along the directions in `x` and in the conditions."""
    pairs = zip(at.cond, at.directions, strict=True)
    return along(y, at) + sum(u * grad(y, c) for c, u in pairs if u is not None)


def diagonal(y: Tensor, at: Inputs) -> Tensor:
    """Return the diagonal of the Hessian."""
    slopes = grad(y, at.x).flatten(1).unbind(1)
    rows = [grad(slope, at.x).flatten(1)[:, i] for i, slope in enumerate(slopes)]
    return torch.stack(rows, 1).view_as(at.x)


def trace(y: Tensor, at: Inputs) -> Tensor:
    """Return the Laplacian."""
    return diagonal(y, at).flatten(1).sum(1)


def partial_of(y: Tensor, at: Inputs, indices: tuple[int, ...]) -> Tensor:
    """Return a partial derivative."""
    for i in indices:
        y = grad(y, at.x).flatten(1)[:, i]
    return y


def true_divergence(at: Inputs) -> Tensor:
    """Return the divergence of a field."""
    outputs = at.model(at.x, *at.cond).flatten(1).unbind(1)
    return sum((grad(s, at.x).flatten(1)[:, i] for i, s in enumerate(outputs)), torch.zeros(ROWS))


def stacked(at: Inputs, engine: Derivative, h: float) -> Tensor:
    """Return several partial derivatives."""
    found = operators.partials(at.model, at.x, PARTIALS, *at.cond, derivative=engine, step=h)
    return torch.stack([found[key] for key in PARTIALS])


Operator = tuple[Callable[[Inputs, Derivative, float], Tensor], Callable[[Inputs], Tensor]]
OPERATORS: dict[str, Operator] = {
    "jvp": (
        lambda at, e, h: operators.jvp(
            at.model, at.x, at.v, *at.cond,
            cond_directions=at.directions, derivative=e, step=h,
        )[1],
        by_output(along_all),
    ),
    "jet": (
        lambda at, e, h: operators.jet(at.model, at.x, at.v, 3, *at.cond, derivative=e, step=h)[3],
        by_output(lambda y, at: along(along(along(y, at), at), at)),
    ),
    "hvp": (
        lambda at, e, h: operators.hvp(at.model, at.x, at.v, *at.cond, derivative=e, step=h),
        by_output(lambda y, at: grad(along(y, at), at.x)),
    ),
    "laplacian": (
        lambda at, e, h: operators.laplacian(at.model, at.x, *at.cond, derivative=e, step=h),
        by_output(trace),
    ),
    "hessian_diagonal": (
        lambda at, e, h: operators.hessian_diagonal(
            at.model, at.x, *at.cond, derivative=e, step=h
        ),
        by_output(diagonal),
    ),
    "divergence": (
        lambda at, e, h: operators.divergence(at.model, at.x, *at.cond, derivative=e, step=h),
        true_divergence,
    ),
    "partials": (
        stacked,
        lambda at: torch.stack(
            [by_output(partial(partial_of, indices=key))(at) for key in PARTIALS]
        ),
    ),
    "biharmonic": (
        lambda at, e, h: operators.biharmonic(at.model, at.x, *at.cond, derivative=e, step=h),
        by_output(lambda y, at: trace(trace(y, at), at)),
    ),
}  # fmt: skip


def inputs(model: Field) -> Inputs:
    """Return a model with fixed parameters and points, in float64."""
    torch.manual_seed(0)
    built = model.build()
    with torch.no_grad():
        for p in built.parameters():
            p.add_(0.1 * torch.randn_like(p))
    cond = tuple(c.requires_grad_() if c.is_floating_point() else c for c in model.cond())
    x = torch.randn(ROWS, *model.shape).requires_grad_()
    return Inputs(built, x, torch.randn(ROWS, *model.shape), cond)


def with_gradients(y: Tensor, at: Inputs) -> tuple[Tensor, Tensor]:
    """Return values, and the gradient of a weighted sum of them for the parameters, as vectors."""
    weights = torch.linspace(0.5, 1.5, y.numel()).view_as(y)
    parameters = [p for p in at.model.parameters() if p.requires_grad]
    total = (weights * y).sum()
    if not total.requires_grad:
        return y.detach().flatten(), torch.zeros(sum(p.numel() for p in parameters))
    gradients = torch.autograd.grad(total, parameters, materialize_grads=True)
    return y.detach().flatten(), torch.cat([g.flatten() for g in gradients])


def truth(name: str, at: Inputs) -> tuple[Tensor, Tensor]:
    """Return the values and gradients of an operator by nested gradients."""
    with Elementary(), sdpa_kernel(SDPBackend.MATH):
        return with_gradients(OPERATORS[name][1](at), at)


def error(found: Tensor, expected: Tensor) -> float:
    """Return the largest error, relative to the largest value."""
    difference = (found - expected).abs().max()
    return float(difference / expected.abs().max().clamp(min=1e-3))


def outcome(operator: str, engine: str, at: Inputs, expected: tuple[Tensor, Tensor]) -> str:
    """Return "right", "refused: …" or "wrong: …" for an operator and an engine on a model."""
    errors = []
    for step in STEPS[engine]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = with_gradients(OPERATORS[operator][0](at, ENGINES[engine], step), at)
        except REFUSALS as refusal:
            return f"refused: {type(refusal).__name__}: {str(refusal).splitlines()[0]}"
        errors.append(max(error(*pair) for pair in zip(found, expected, strict=True)))
    return "right" if min(errors) <= TOLERANCE[engine] else f"wrong: error {min(errors):.1e}"


def applies(operator: str, at: Inputs) -> bool:
    """Return whether a model has an operator: only fields have a divergence."""
    return operator != "divergence" or at.model(at.x, *at.cond).shape == at.x.shape


def outcomes(models: Sequence[str] = tuple(MODELS)) -> dict[tuple[str, str, str], str]:
    """Return the outcomes by model, operator and engine."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    results: dict[tuple[str, str, str], str] = {}
    try:
        for name in models:
            at = inputs(MODELS[name])
            for operator in OPERATORS:
                if not applies(operator, at):
                    continue
                expected = truth(operator, at)
                for engine in ENGINES:
                    results[name, operator, engine] = outcome(operator, engine, at, expected)
    finally:
        torch.set_default_dtype(default)
    return results


def table(results: dict[tuple[str, str, str], str]) -> str:
    """Return a table in Markdown: a letter for each engine, and the refusals below it."""
    names = list(dict.fromkeys(name for name, *_ in results))
    letters = {"right": "✓", "refused": "r", "wrong": "✗"}
    lines = [
        f"Engines, in this order: {', '.join(ENGINES)}. ✓ right, r refused, ✗ wrong; "
        "values and parameter gradients against nested autograd in float64.\n",
        f"| model | {' | '.join(OPERATORS)} |",
        "|---" * (1 + len(OPERATORS)) + "|",
    ]
    for name in names:
        cells = []
        for operator in OPERATORS:
            found = [results.get((name, operator, engine)) for engine in ENGINES]
            cells.append("".join(letters[r.partition(":")[0]] if r else "–" for r in found))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    reasons = sorted({
        f"- {name}, {engine}: {r}" for (name, _, engine), r in results.items() if r != "right"
    })
    counts = {kind: sum(r.startswith(kind) for r in results.values()) for kind in letters}
    total = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    return "\n".join([*lines, "", f"{len(names)} models: {total}.", "", *reasons, ""])


def main(arguments: list[str] | None = None) -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks operator-models")
    parser.add_argument(
        "--output", type=Path, default=Path("benchmarks/results/operator_models.md")
    )
    output = parser.parse_args(arguments).output
    torch.set_num_threads(1)
    text = table(outcomes())
    output.write_text(text, encoding="utf8")
    print(text)
