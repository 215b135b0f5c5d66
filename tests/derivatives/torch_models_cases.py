"""Layers, functions and distributions of torch, composed to log-densities."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, distributions, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import parametrizations

from .public_models_cases import (
    KINK,
    NO_DOUBLE_BACKWARD,
    RANDOM,
    REFUSED,
    Case,
    Model,
    density_of,
    log_density,
)

Modules = dict[str, Callable[[], nn.Module]]
positive = functional.softplus
chain = nn.Sequential

SMOOTH: Modules = {
    "GELU": nn.GELU,
    "GELU, tanh": lambda: nn.GELU(approximate="tanh"),
    "GLU": nn.GLU,
    "LogSigmoid": nn.LogSigmoid,
    "LogSoftmax": lambda: nn.LogSoftmax(1),
    "Mish": nn.Mish,
    "Sigmoid": nn.Sigmoid,
    "SiLU": nn.SiLU,
    "Softmax": lambda: nn.Softmax(1),
    "Softmin": lambda: nn.Softmin(1),
    "Softplus": nn.Softplus,
    "Tanh": nn.Tanh,
    "Tanhshrink": nn.Tanhshrink,
}
KINKED: Modules = {
    "CELU": nn.CELU,
    "ELU": nn.ELU,
    "Hardshrink": nn.Hardshrink,
    "Hardsigmoid": nn.Hardsigmoid,
    "Hardswish": nn.Hardswish,
    "Hardtanh": nn.Hardtanh,
    "LeakyReLU": nn.LeakyReLU,
    "PReLU": nn.PReLU,
    "RReLU, eval": lambda: nn.RReLU().eval(),
    "ReLU": nn.ReLU,
    "ReLU6": nn.ReLU6,
    "SELU": nn.SELU,
    "Softshrink": nn.Softshrink,
    "Softsign": nn.Softsign,
    "Threshold": lambda: nn.Threshold(0.1, 0.0),
}
EXCEPTIONS: dict[str, dict[str, Any]] = {
    "Hardsigmoid": NO_DOUBLE_BACKWARD,
    "PReLU": {"seed": 1},
}
RANDOM_LAYERS: Modules = {
    "AlphaDropout, train": lambda: nn.AlphaDropout(0.5),
    "Dropout, train": lambda: nn.Dropout(0.5),
    "FeatureAlphaDropout, train": lambda: nn.FeatureAlphaDropout(0.5),
}


def activation(make: Callable[[], nn.Module]) -> Model:
    width = 3 if make is nn.GLU else 6
    return density_of(chain(nn.Linear(3, 6), make(), nn.Linear(width, 2)), 3)


FLAT: Modules = {
    "Dropout, eval": lambda: chain(nn.Linear(3, 8), nn.Dropout(0.5), nn.Tanh()).eval(),
    "LayerNorm": lambda: chain(nn.Linear(3, 6), nn.LayerNorm(6), nn.SiLU(), nn.Linear(6, 1)),
    "RMSNorm": lambda: chain(nn.Linear(3, 6), nn.RMSNorm(6), nn.SiLU(), nn.Linear(6, 1)),
    "orthogonal": lambda: chain(parametrizations.orthogonal(nn.Linear(3, 4)), nn.Tanh()),
    "weight_norm": lambda: chain(parametrizations.weight_norm(nn.Linear(3, 4)), nn.Tanh()),
}
SEQUENCES: Modules = {  # of shape (1, 5)
    "Conv1d": lambda: nn.Conv1d(1, 3, 3, padding="same", padding_mode="circular"),
    "ConvTranspose1d": lambda: nn.ConvTranspose1d(1, 2, 3, stride=2, output_padding=1),
    "InstanceNorm1d": lambda: chain(
        nn.Conv1d(1, 2, 2), nn.InstanceNorm1d(2, affine=True), nn.SiLU()
    ),
}
IMAGES: Modules = {  # of shape (1, 4, 4)
    "AdaptiveAvgPool2d": lambda: chain(nn.Conv2d(1, 2, 2), nn.AdaptiveAvgPool2d(2)),
    "ChannelShuffle": lambda: chain(nn.Conv2d(1, 4, 2), nn.ChannelShuffle(2)),
    "Conv2d": lambda: chain(
        nn.Conv2d(1, 4, 3, padding=1, stride=2), nn.SiLU(), nn.Conv2d(4, 2, 1, groups=2)
    ),
    "ConvTranspose2d": lambda: chain(
        nn.Conv2d(1, 2, 2), nn.ConvTranspose2d(2, 2, 2, stride=2, groups=2)
    ),
    "Fold, Unfold": lambda: chain(nn.Unfold(2), nn.Conv1d(4, 4, 1), nn.Tanh(), nn.Fold((4, 4), 2)),
    "GroupNorm": lambda: chain(nn.Conv2d(1, 4, 2), nn.GroupNorm(2, 4), nn.SiLU()),
    "InstanceNorm2d": lambda: chain(nn.Conv2d(1, 2, 2), nn.InstanceNorm2d(2), nn.SiLU()),
    "LayerNorm of three dimensions": lambda: chain(
        nn.Conv2d(1, 2, 3), nn.LayerNorm([2, 2, 2]), nn.SiLU()
    ),
    "LocalResponseNorm": lambda: chain(nn.Conv2d(1, 4, 3), nn.LocalResponseNorm(2)),
    "PixelShuffle": lambda: chain(
        nn.Conv2d(1, 4, 2), nn.PixelShuffle(2), nn.Tanh(), nn.PixelUnshuffle(2)
    ),
    "ReplicationPad2d": lambda: chain(nn.ReplicationPad2d(1), nn.Conv2d(1, 2, 2)),
    "Upsample, bicubic": lambda: chain(
        nn.Upsample(scale_factor=2, mode="bicubic"), nn.Conv2d(1, 2, 2)
    ),
    "Upsample, bilinear": lambda: chain(
        nn.Upsample(size=5, mode="bilinear", align_corners=True), nn.Conv2d(1, 2, 2)
    ),
}
VOLUMES: Modules = {  # of shape (1, 3, 3, 3)
    "AvgPool3d": lambda: chain(nn.Conv3d(1, 2, 2), nn.AvgPool3d(2)),
    "Conv3d": lambda: nn.Conv3d(1, 2, 2, dilation=2, padding=1, padding_mode="reflect"),
    "ConvTranspose3d": lambda: nn.ConvTranspose3d(1, 2, 2),
    "InstanceNorm3d": lambda: chain(
        nn.Conv3d(1, 2, 2), nn.InstanceNorm3d(2, affine=True), nn.SiLU()
    ),
}
RECURRENT: Modules = {  # of shape (4, 3)
    "GRU": lambda: nn.GRU(3, 2, batch_first=True),
    "LSTM": lambda: nn.LSTM(3, 2, batch_first=True),
    "LSTM, bidirectional": lambda: nn.LSTM(3, 2, 2, batch_first=True, bidirectional=True),
    "RNN": lambda: nn.RNN(3, 2, batch_first=True),
}
CELLS: Modules = {
    "GRUCell": lambda: nn.GRUCell(3, 2),
    "LSTMCell": lambda: nn.LSTMCell(3, 2),
    "RNNCell": lambda: nn.RNNCell(3, 2),
}


def recurrent(module: nn.Module) -> Model:
    return density_of(module, 4, 3, f=lambda x: module(x)[0])


def cell(module: nn.Module) -> Model:
    state = torch.randn(3, 2)
    if isinstance(module, nn.LSTMCell):
        return density_of(module, 3, f=lambda x, h: module(x, (h, h))[0], cond=(state,))
    return density_of(module, 3, cond=(state,))


def batch_norm(training: bool) -> Model:
    module = chain(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh())
    module(torch.randn(8, 3))
    return density_of(module.train(training), 3)


def batch_norm_without_statistics() -> Model:
    norm = nn.BatchNorm2d(2, track_running_stats=False)
    return density_of(chain(nn.Conv2d(1, 2, 2), norm, nn.Tanh()).eval(), 1, 3, 3)


def spectral_norm(training: bool) -> Model:
    """In training mode a call changes the buffers of spectral norm."""
    module = chain(parametrizations.spectral_norm(nn.Linear(3, 4)), nn.Tanh()).train(training)
    return density_of(module, 3, buffers=tuple(module.buffers()))


def attention(kernel: SDPBackend | None = None, weights: bool = False) -> Model:
    module = nn.MultiheadAttention(4, 2, batch_first=True)

    def f(x: Tensor) -> Tensor:
        if kernel is None:
            return module(x, 2 * x, x, need_weights=weights)[0]
        with sdpa_kernel(kernel):
            return module(x, 2 * x, x, need_weights=weights)[0]

    return density_of(module, 3, 4, f=f)


def encoder(training: bool = False, **options: object) -> Model:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, **options)
    module = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).train(training)
    return density_of(module, 3, 4)


def decoder() -> Model:
    layer = nn.TransformerDecoderLayer(4, 2, 8, activation="gelu", batch_first=True)
    module = nn.TransformerDecoder(layer, 1).eval()
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    f = lambda x: module(x, 2 * x, tgt_mask=mask, tgt_is_causal=True)
    return density_of(module, 3, 4, f=f)


def transformer() -> Model:
    module = nn.Transformer(4, 2, 1, 1, 8, activation="gelu", batch_first=True).eval()
    return density_of(module, 3, 4, f=lambda x: module(x, 2 * x))


def bilinear() -> Model:
    module = nn.Bilinear(3, 3, 2)
    return density_of(module, 3, f=lambda x: module(x, x.tanh()))


def embedding() -> Model:
    module = nn.ModuleList([nn.Linear(3, 4), nn.Embedding(5, 4)])
    f = lambda x, label: torch.tanh(module[0](x)) * module[1](label)
    return density_of(module, 3, f=f, cond=(torch.tensor([1, 0, 4]),))


def similarity() -> Model:
    module = nn.ModuleList([nn.Linear(3, 4), nn.CosineSimilarity()])
    f = lambda x: module[1](module[0](x), module[0].weight[:, :1].T).unsqueeze(1)
    return density_of(module, 3, f=f)


LAYERS: dict[str, Case] = {
    "AdaptiveMaxPool1d": Case(
        lambda: density_of(chain(nn.Conv1d(1, 2, 2), nn.AdaptiveMaxPool1d(2)), 1, 7), **KINK
    ),
    "BatchNorm1d, eval": Case(lambda: batch_norm(False)),
    "BatchNorm1d, train": Case(lambda: batch_norm(True), **REFUSED),
    "BatchNorm2d without statistics": Case(batch_norm_without_statistics, **REFUSED),
    "Bilinear": Case(bilinear),
    "CosineSimilarity": Case(similarity),
    "Dropout2d, train": Case(
        lambda: density_of(chain(nn.Conv2d(1, 8, 2), nn.Dropout2d(), nn.Tanh()), 1, 3, 3), **RANDOM
    ),
    "Embedding of a condition": Case(embedding),
    "LPPool1d": Case(lambda: density_of(chain(nn.Conv1d(1, 2, 1), nn.LPPool1d(2, 2)), 1, 4)),
    "MaxPool2d": Case(
        lambda: density_of(chain(nn.Conv2d(1, 2, 2), nn.MaxPool2d(2)), 1, 5, 5), **KINK
    ),
    "MultiheadAttention": Case(attention, **NO_DOUBLE_BACKWARD),
    "MultiheadAttention, math kernel": Case(lambda: attention(SDPBackend.MATH)),
    "MultiheadAttention with weights": Case(lambda: attention(weights=True)),
    "Transformer": Case(transformer, **NO_DOUBLE_BACKWARD),
    "TransformerDecoder": Case(decoder, **NO_DOUBLE_BACKWARD),
    "TransformerEncoder": Case(lambda: encoder(activation="gelu"), **NO_DOUBLE_BACKWARD),
    "TransformerEncoder, norm first, ReLU": Case(
        lambda: encoder(norm_first=True), **NO_DOUBLE_BACKWARD, **KINK
    ),
    "TransformerEncoder, train": Case(lambda: encoder(True, activation="gelu"), **RANDOM),
    "spectral_norm, eval": Case(lambda: spectral_norm(False)),
    "spectral_norm, train": Case(lambda: spectral_norm(True)),
}


def functional_norm(norm: Callable[[Tensor, Tensor, Tensor], Tensor], *shape: int) -> Model:
    """Return a perceptron with a norm that is no module."""
    module = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 2)])
    scale, shift = torch.rand(4) + 0.5, torch.randn(4)
    f = lambda x: module[1](norm(module[0](x), scale, shift).movedim(1, -1).tanh())
    model = density_of(module, *shape, f=f)
    model.parameters += [scale.requires_grad_(), shift.requires_grad_()]
    return model


def dot_product_attention() -> Model:
    module = nn.Linear(4, 12)

    def f(x: Tensor) -> Tensor:
        q, k, v = module(x).view(*x.shape[:2], 3, 2, 2).permute(2, 0, 3, 1, 4)
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    return density_of(module, 3, 4, f=f)


FUNCTIONAL: dict[str, Case] = {
    "functional.layer_norm": Case(
        lambda: functional_norm(lambda h, a, b: functional.layer_norm(h, (4,), a, b), 4)
    ),
    "functional.rms_norm": Case(
        lambda: functional_norm(lambda h, a, b: functional.rms_norm(h, (4,), a) + b, 4)
    ),
    "functional.group_norm": Case(
        lambda: functional_norm(lambda h, a, b: functional.group_norm(h, 2, a, b), 4, 4)
    ),
    "functional.instance_norm": Case(
        lambda: functional_norm(
            lambda h, a, b: functional.instance_norm(h, weight=a, bias=b), 4, 4
        )
    ),
    "functional.batch_norm, eval": Case(
        lambda: functional_norm(
            lambda h, a, b: functional.batch_norm(h, torch.zeros(4), torch.ones(4), a, b), 4
        )
    ),
    "functional.batch_norm, train": Case(
        lambda: functional_norm(
            lambda h, a, b: functional.batch_norm(h, None, None, a, b, training=True), 4
        ),
        **REFUSED,
    ),
    "functional.normalize": Case(
        lambda: functional_norm(lambda h, a, b: functional.normalize(h, dim=1) * a + b, 4)
    ),
    "functional.scaled_dot_product_attention": Case(dot_product_attention, **NO_DOUBLE_BACKWARD),
}


def distribution(make: Callable[[Tensor, Tensor], distributions.Distribution]) -> Model:
    a, b = torch.randn(2, 3)
    f = lambda x: make(a, b).log_prob(x).view(len(x), -1).sum(1)
    return log_density(f, [a, b], torch.rand(4, 3) * 0.6 + 0.2)


DISTRIBUTIONS: dict[str, Callable[[Tensor, Tensor], distributions.Distribution]] = {
    "Beta": lambda a, b: distributions.Beta(positive(a), positive(b)),
    "Cauchy": lambda a, b: distributions.Cauchy(a, positive(b)),
    "Gamma": lambda a, b: distributions.Gamma(positive(a), positive(b)),
    "LogNormal": lambda a, b: distributions.LogNormal(a, positive(b)),
    "LowRankMultivariateNormal": lambda a, b: distributions.LowRankMultivariateNormal(
        a, b[:, None], positive(a)
    ),
    "MixtureSameFamily": lambda a, b: distributions.MixtureSameFamily(
        distributions.Categorical(logits=a),
        distributions.Independent(
            distributions.Normal(b[:, None] * a, 0.3 + positive(a).expand(3, 3)), 1
        ),
    ),
    "MultivariateNormal": lambda a, b: distributions.MultivariateNormal(
        a, torch.eye(3) + torch.outer(b, b)
    ),
    "StudentT": lambda a, b: distributions.StudentT(positive(a), b),
    "TransformedDistribution": lambda a, b: distributions.TransformedDistribution(
        distributions.Normal(a, positive(b)),
        [distributions.TanhTransform(), distributions.AffineTransform(0.5, 0.6)],
    ),
    "VonMises": lambda a, b: distributions.VonMises(a, positive(b)),
    "Weibull": lambda a, b: distributions.Weibull(positive(a), positive(b)),
}
USES_ABS = {"Beta", "Weibull"}  # in a check of the support, and inside a logarithm


def layers(modules: Modules, *shape: int) -> dict[str, Case]:
    return {
        name: Case(lambda make=make: density_of(make(), *shape)) for name, make in modules.items()
    }


def activations(modules: Modules, **outcomes: object) -> dict[str, Case]:
    return {
        f"Linear, {name}": Case(
            lambda make=make: activation(make), **outcomes | EXCEPTIONS.get(name, {})
        )
        for name, make in modules.items()
    }


TORCH: dict[str, Case] = (
    activations(SMOOTH)
    | activations(KINKED, **KINK)
    | activations(RANDOM_LAYERS, **RANDOM)
    | layers(FLAT, 3)
    | layers(SEQUENCES, 1, 5)
    | layers(IMAGES, 1, 4, 4)
    | layers(VOLUMES, 1, 3, 3, 3)
    | {n: Case(lambda make=make: recurrent(make())) for n, make in RECURRENT.items()}
    | {n: Case(lambda make=make: cell(make())) for n, make in CELLS.items()}
    | LAYERS
    | FUNCTIONAL
    | {
        f"distributions.{n}": Case(
            lambda make=make: distribution(make), **(KINK if n in USES_ABS else {})
        )
        for n, make in DISTRIBUTIONS.items()
    }
)
