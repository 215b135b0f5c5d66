"""Attention, and the modules of torch that use it, agree with Autodiff."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from fdsm.derivatives import Jet, Taylor

from ..agreement import assert_agrees

pytestmark = [
    pytest.mark.filterwarnings("ignore::fdsm.derivatives.WrongGradientWarning"),
    pytest.mark.filterwarnings("ignore::fdsm.derivatives.KinkWarning"),
]
attend = F.scaled_dot_product_attention


@pytest.fixture(autouse=True)
def _differentiable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let Autodiff differentiate as often as it must.

    The fused attention of torch has no double backward, and its layer norm a wrong third one
    (https://github.com/pytorch/pytorch/issues/175754).
    """
    fused = nn.LayerNorm.forward

    def layer_norm(module: nn.LayerNorm, x: Tensor) -> Tensor:
        if isinstance(x, Jet):
            return fused(module, x)
        variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
        return (x - mean) / (variance + module.eps).sqrt() * module.weight + module.bias

    monkeypatch.setattr(nn.LayerNorm, "forward", layer_norm)
    with sdpa_kernel(SDPBackend.MATH):
        yield


ALLOWED = torch.tensor([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 1, 1]]).bool()
NOTHING = torch.tensor([[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1]]).bool()
ADDED = torch.zeros(3, 4, dtype=torch.float64).masked_fill(~NOTHING, -torch.inf)

Op = Callable[[Tensor, Tensor, Tensor, Tensor], Any]
"""Of queries `(B, 2, 3, 6)`, keys and values `(B, 2, 4, 6)`, and a constant `(3, 4)`."""

ATTENTIONS: dict[str, Op] = {
    "plain": lambda q, k, v, m: attend(q, k, v),
    "scaled": lambda q, k, v, m: attend(q, k, v[..., :2], scale=0.7),
    "causal": lambda q, k, v, m: attend(q, k, v, is_causal=True),
    "allowed": lambda q, k, v, m: attend(q, k, v, ALLOWED),
    "nothing": lambda q, k, v, m: attend(q, k, v, attn_mask=NOTHING),
    "nothing_added": lambda q, k, v, m: attend(q, k, v, ADDED),
    "added": lambda q, k, v, m: attend(q, k, v, m),
    "grouped": lambda q, k, v, m: attend(q, k[:, :1], v[:, :1], enable_gqa=True),
    "queries": lambda q, k, v, m: attend(q, m.mT @ torch.ones(3, 6), m.mT),
    "constant_values": lambda q, k, v, m: attend(q, k, m.T),
    "constant_queries": lambda q, k, v, m: attend(m[:, :1].expand(3, 6), k, v, ALLOWED),
}  # fmt: skip


def check(op: Op, orders: tuple[int, ...], directions: tuple[int, ...], rtol: float) -> None:
    x, w, m = torch.randn(2, 4, 6), torch.randn(6, 12), torch.randn(3, 4)

    def f(x: Tensor) -> Tensor:
        q, k = (x @ w).unflatten(-1, (2, 6)).transpose(1, 2), (x @ w[:, :6]).sin()[:, None]
        y = op(q[:, :, :3], k.expand(-1, 2, -1, -1), q.tanh(), m)
        return (torch.linspace(1, 2, y[0].numel()) * y.flatten(1)).sum(1)

    assert_agrees(f, x, w, m, orders=orders, directions=directions, rtol=rtol)


@pytest.mark.parametrize("op", ATTENTIONS.values(), ids=ATTENTIONS)
def test_agrees_with_autodiff(op: Op) -> None:
    check(op, (1, 2), (3,), 1e-10)


@pytest.mark.parametrize("name", ["plain", "causal"])
def test_higher_orders(name: str) -> None:
    check(ATTENTIONS[name], (4,), (), 1e-8)


def test_masked_altogether_at_higher_orders() -> None:
    f = lambda x: attend(x, x, x, NOTHING[:, :3]).sum((1, 2))
    found = Taylor().jet(f, *torch.randn(2, 2, 3, 3), 3)
    assert all(term.isfinite().all() for term in found)


def test_dropout_has_one_mask() -> None:
    """It is the mask that torch draws after the same seed."""

    def seeded(*args: Tensor) -> Tensor:
        torch.manual_seed(3)
        return attend(*args[:3], dropout_p=0.4)

    check(seeded, (1, 2), (3,), 1e-10)


def test_two_masks_are_refused() -> None:
    x = torch.randn(2, 3, 4)
    with pytest.raises(ValueError, match="not both"):
        Taylor().jet(
            lambda x: attend(x, x, x, torch.ones(3, 3), is_causal=True).sum((1, 2)), x, x, 1
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_large_scores(dtype: torch.dtype) -> None:
    x = 100 * torch.randn(2, 3, 4, dtype=dtype)
    for order in (2, 3):
        f = lambda x: attend(x, x, x, is_causal=True).sum((1, 2))
        found = Taylor().jet(f, x, torch.randn_like(x), order)
        assert all(term.isfinite().all() and term.dtype == dtype for term in found)


PADDING = torch.tensor([[0, 0, 0, 0, 1], [0, 0, 0, 0, 0], [0, 1, 0, 1, 1]]).bool()
CAUSAL = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)

CALLS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no_weights": {"need_weights": False},
    "weights_of_heads": {"average_attn_weights": False},
    "padding": {"key_padding_mask": PADDING},
    "causal": {"attn_mask": CAUSAL, "need_weights": False, "is_causal": True},
    "both": {"attn_mask": CAUSAL < 0, "key_padding_mask": PADDING, "need_weights": False},
}
BUILDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "sequence_first": {"batch_first": False},
    "no_bias": {"bias": False},
    "bias_kv": {"add_bias_kv": True, "add_zero_attn": True},
    "separate": {"kdim": 6, "vdim": 4},
}


@pytest.mark.parametrize(
    ("build", "call"),
    [("plain", call) for call in CALLS]
    + [(build, "padding") for build in BUILDS if build != "plain"],
)
def test_multihead_attention(build: str, call: str) -> None:
    options = {"batch_first": True} | BUILDS[build]
    module = nn.MultiheadAttention(8, 2, **options)
    x = torch.randn(3, 5, 8)

    def f(x: Tensor) -> Tensor:
        q, k, v = x.sin(), x[..., : module.kdim].cos(), x[..., : module.vdim]
        if not module.batch_first:
            q, k, v = (y.transpose(0, 1) for y in (q, k, v))
        y, weights = module(q, k, v, **CALLS[call])
        y = y if module.batch_first else y.transpose(0, 1)
        result = y.square().sum((1, 2))
        return result if weights is None else result + weights.square().flatten(1).sum(1)

    assert_agrees(f, x, *module.parameters(), directions=(3,))


def test_attention_of_one_sequence() -> None:
    module = nn.MultiheadAttention(6, 3)

    def f(x: Tensor) -> Tensor:
        return torch.stack([module(row, row, row)[0].square().sum() for row in x])

    assert_agrees(f, torch.randn(2, 4, 6), *module.parameters(), directions=(3,))


def test_attention_to_constants() -> None:
    module, memory = nn.MultiheadAttention(6, 3, batch_first=True), torch.randn(2, 5, 6)
    f = lambda x: module(x, memory, memory)[0].square().sum((1, 2))
    g = lambda x: module(memory, x, memory[:, :4])[0].square().sum((1, 2))
    for function in (f, g):
        assert_agrees(
            function, torch.randn(2, 4, 6), memory, *module.parameters(), directions=(3,)
        )


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_encoder_layers(activation: str, norm_first: bool, batch_first: bool) -> None:
    module = nn.TransformerEncoderLayer(
        8, 2, 12, activation=activation, norm_first=norm_first, batch_first=batch_first
    ).eval()

    def f(x: Tensor) -> Tensor:
        y = module(x if batch_first else x.transpose(0, 1), CAUSAL)
        return y.square().sum((1, 2) if batch_first else (0, 2))

    assert_agrees(f, torch.randn(3, 5, 8), *module.parameters(), directions=(3,))


def test_encoder_with_padding() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 12, 0.0, "gelu", batch_first=True)
    module = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8), enable_nested_tensor=False)

    def f(x: Tensor) -> Tensor:
        return (
            module(x, src_key_padding_mask=PADDING)
            .masked_fill(PADDING[..., None], 0)
            .sin()
            .sum((1, 2))
        )

    for training in (False, True):
        module.train(training)
        assert_agrees(f, torch.randn(3, 5, 8), *module.parameters(), directions=(3,))


@pytest.mark.parametrize("norm_first", [False, True])
def test_decoder_layers(norm_first: bool) -> None:
    module = nn.TransformerDecoderLayer(
        8, 2, 12, 0.0, "gelu", norm_first=norm_first, batch_first=True
    )
    memory = torch.randn(3, 4, 8)
    f = lambda x: module(x, memory, CAUSAL, tgt_is_causal=True).square().sum((1, 2))
    assert_agrees(f, torch.randn(3, 5, 8), memory, *module.parameters(), directions=(3,))
