"""Recurrent layers with all their options, and their cells."""

import pytest
import torch
from torch import Tensor, nn

from fdsm.derivatives import KinkWarning, MissingRule, Taylor

from ..agreement import assert_agrees

LAYERS = {
    "lstm": lambda **options: nn.LSTM(3, 4, **options),
    "gru": lambda **options: nn.GRU(3, 4, **options),
    "rnn_tanh": lambda **options: nn.RNN(3, 4, **options),
    "rnn_relu": lambda **options: nn.RNN(3, 4, nonlinearity="relu", **options),
}
OPTIONS: dict[str, dict[str, object]] = {
    "plain": {},
    "batch_first": {"batch_first": True},
    "two_layers": {"num_layers": 2},
    "bidirectional": {"num_layers": 2, "bidirectional": True, "batch_first": True},
    "no_bias": {"bias": False, "bidirectional": True},
}
CELLS = {
    "lstm": nn.LSTMCell,
    "gru": nn.GRUCell,
    "rnn_tanh": nn.RNNCell,
    "rnn_relu": lambda *sizes, **options: nn.RNNCell(*sizes, nonlinearity="relu", **options),
}
ignoring_kinks = pytest.mark.filterwarnings("ignore::fdsm.derivatives.KinkWarning")


def density(layer: nn.RNNBase, x: Tensor, *states: Tensor) -> Tensor:
    """Return a number for each sequence of shape `(5, 3)`, from outputs and last states."""
    sequences = x if layer.batch_first else x.transpose(0, 1)
    hx = () if not states else (states if len(states) > 1 else states[0],)
    output, last = layer(sequences, *hx)
    output = output if layer.batch_first else output.transpose(0, 1)
    weight = torch.linspace(0.5, 2, output[0].numel(), dtype=x.dtype).view_as(output[0])
    total = (weight * output.sin()).sum((1, 2))
    for i, h in enumerate(last if isinstance(last, tuple) else (last,)):
        total = total + (i + 1) * h.square().sum((0, 2))
    return total


@ignoring_kinks
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("name", LAYERS)
def test_layers_agree_with_autodiff(name: str, options: dict[str, object]) -> None:
    layer = LAYERS[name](**options)
    assert_agrees(lambda x: density(layer, x), torch.randn(2, 5, 3), *layer.parameters())


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"bidirectional": True}])
def test_projections_agree_with_autodiff(options: dict[str, bool]) -> None:
    layer = nn.LSTM(3, 4, num_layers=2, proj_size=2, batch_first=True, **options)
    assert_agrees(lambda x: density(layer, x), torch.randn(2, 5, 3), *layer.parameters())


@ignoring_kinks
@pytest.mark.parametrize("name", LAYERS)
def test_high_orders_agree_with_autodiff(name: str) -> None:
    layer = LAYERS[name](num_layers=2)
    x = torch.randn(2, 3, 3)
    assert_agrees(
        lambda x: density(layer, x), x, *layer.parameters(), orders=(3, 4), directions=()
    )


@ignoring_kinks
@pytest.mark.parametrize("name", LAYERS)
def test_first_states_may_depend_on_the_input(name: str) -> None:
    layer, first = LAYERS[name](num_layers=2, batch_first=True), nn.Linear(3, 16)

    def f(x: Tensor) -> Tensor:
        h = first(x[:, 0]).view(-1, 2, 2, 4).permute(1, 2, 0, 3)
        return density(layer, x, *h.unbind()[: 2 if name == "lstm" else 1])

    assert_agrees(f, torch.randn(2, 5, 3), *layer.parameters(), *first.parameters())
    sequence = torch.randn(2, 5, 3)

    def of_states(x: Tensor) -> Tensor:
        h = first(x).view(-1, 2, 2, 4).permute(1, 2, 0, 3)
        return density(layer, sequence, *h.unbind()[: 2 if name == "lstm" else 1])

    assert_agrees(of_states, torch.randn(2, 3), *layer.parameters(), *first.parameters())


@ignoring_kinks
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", CELLS)
def test_cells_agree_with_autodiff(name: str, bias: bool) -> None:
    cell = CELLS[name](3, 4, bias=bias)

    def f(x: Tensor) -> Tensor:
        state = None
        for z in x.unbind(1):
            state = cell(z, state)
        h = torch.cat(state, 1) if isinstance(state, tuple) else state
        assert h is not None
        return (torch.linspace(0.5, 2, h.shape[1]) * h).sum(1)

    assert_agrees(f, torch.randn(2, 3, 3), *cell.parameters(), orders=(1, 2, 4))


def test_sequences_without_a_batch() -> None:
    layer = nn.GRU(3, 4)
    f = lambda x: torch.stack([layer(sequence)[0].square().sum() for sequence in x])
    assert_agrees(f, torch.randn(2, 5, 3), *layer.parameters())


def test_types_are_kept() -> None:
    layer, x = nn.LSTM(3, 4, batch_first=True).float(), torch.randn(2, 5, 3, dtype=torch.float32)
    f = lambda x: density(layer, x)
    assert {y.dtype for y in Taylor().jet(f, x, torch.ones_like(x), 2)} == {torch.float32}
    assert_agrees(f, x, *layer.parameters(), rtol=1e-4)


def test_dropout_between_layers() -> None:
    """Dropout is off in evaluation, and acts between layers, not after the last, in training."""
    layer = nn.LSTM(3, 40, num_layers=2, dropout=0.5)
    x = torch.randn(2, 5, 3)
    f = lambda x: density(layer, x)
    assert_agrees(f, x, *layer.eval().parameters())
    dropping = [Taylor().jet(lambda x: density(layer.train(), x), x, x, 2) for _ in range(2)]
    assert (dropping[0][2] != dropping[1][2]).all()
    last = lambda x: layer(x.transpose(0, 1))[0].eq(0).sum() + x.sum((1, 2))
    torch.testing.assert_close(Taylor().jet(last, x, x, 1)[0], x.sum((1, 2)))


def test_packed_sequences_are_refused() -> None:
    layer = nn.GRU(3, 4)

    def packing(x: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 4]), batch_first=True)
        return layer(packed)[1].sum((0, 2))

    def packed(x: Tensor) -> Tensor:
        sequence = nn.utils.rnn.PackedSequence(x.flatten(0, 1), torch.tensor([2] * 5))
        return layer(sequence)[1].sum((0, 2))

    x = torch.randn(2, 5, 3)
    for f, message in ((packing, "_pack_padded_sequence"), (packed, "packed sequences")):
        with pytest.raises(MissingRule, match=message):
            Taylor().jet(f, x, x, 2)


def test_the_kink_of_relu_is_reported() -> None:
    layer, x = nn.RNN(3, 4, nonlinearity="relu"), torch.randn(2, 5, 3)
    with pytest.warns(KinkWarning, match="relu"):
        Taylor().jet(lambda x: density(layer, x), x, x, 2)
