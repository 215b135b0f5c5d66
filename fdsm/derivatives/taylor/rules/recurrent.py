"""Recurrent layers and their cells, written out step by step."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from ..registry import MissingRule, Rule, rule

State = tuple[Tensor, ...]
"""$h$ or, for an LSTM, $h$ and $c$."""
Cell = Callable[..., State]
"""Returns the next state, given $W_i x + b_i$, the state, $W_h$, $b_h$ and a projection."""


def _lstm_step(
    x: Tensor, state: State, w: Tensor, b: Tensor | None, projection: Tensor | None = None
) -> State:
    r"""Return $c' = f c + i \tanh g$ and $h' = o \tanh c'$, or a projection of $h'$."""
    h, c = state
    gates = x + functional.linear(h, w, b)
    i, f, _, o = gates.sigmoid().chunk(4, -1)  # one call takes less time than three
    c = f * c + i * gates.chunk(4, -1)[2].tanh()
    h = o * c.tanh()
    return h if projection is None else functional.linear(h, projection), c


def _gru_step(x: Tensor, state: State, w: Tensor, b: Tensor | None) -> State:
    r"""Return $h' = n + z (h - n)$ with $n = \tanh(n_x + r n_h)$."""
    (h,) = state
    y, gates = functional.linear(h, w, b), 2 * h.shape[-1]
    r, z = (x[..., :gates] + y[..., :gates]).sigmoid().chunk(2, -1)
    n = (x[..., gates:] + r * y[..., gates:]).tanh()
    return (n + z * (h - n),)


def _simple_step(activation: Callable[[Tensor], Tensor]) -> Cell:
    """Return the step of a simple recurrent layer, $h' = g(W_i x + b_i + W_h h + b_h)$."""

    def step(x: Tensor, state: State, w: Tensor, b: Tensor | None) -> State:
        (h,) = state
        return (activation(x + functional.linear(h, w, b)),)

    return step


def _cell(step: Cell) -> Rule:
    """Return the rule of a cell: one step."""

    def applied(
        input: Tensor,
        hx: Tensor | Sequence[Tensor],
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor | None = None,
        b_hh: Tensor | None = None,
    ) -> Tensor | State:
        state = step(functional.linear(input, w_ih, b_ih), _as_state(hx), w_hh, b_hh)
        return state if len(state) > 1 else state[0]

    return applied


def _as_state(hx: Tensor | Sequence[Tensor]) -> State:
    """Return a state as a tuple."""
    return (hx,) if isinstance(hx, Tensor) else tuple(hx)


def _layers(step: Cell) -> Rule:
    """Return the rule of recurrent layers, given one step of their cells."""

    def applied(
        input: Tensor,
        hx: Tensor | Sequence[Tensor],
        params: Sequence[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool = False,
    ) -> tuple[Tensor, ...]:
        if not isinstance(has_biases, bool):  # batch sizes come second, and the rest after them
            raise MissingRule(
                "Taylor has no rule for recurrent layers of packed sequences: pad the sequences, "
                "and mask the result"
            )
        x = input.transpose(0, 1) if batch_first else input
        directions = 2 if bidirectional else 1
        count = len(params) // (num_layers * directions)
        last: list[State] = []
        for layer in range(num_layers):
            outputs = []
            for reverse in range(directions):
                first = tuple(h[len(last)] for h in _as_state(hx))
                weights = params[count * len(last) : count * (len(last) + 1)]
                output, state = _run(step, x, first, weights, has_biases, bool(reverse))
                outputs.append(output)
                last.append(state)
            x = torch.cat(outputs, -1)
            if layer < num_layers - 1:
                x = functional.dropout(x, dropout, train)
        states = (torch.stack(h) for h in zip(*last, strict=True))
        return x.transpose(0, 1) if batch_first else x, *states

    return applied


def _run(
    step: Cell,
    x: Tensor,
    state: State,
    weights: Sequence[Tensor],
    has_biases: bool,
    reverse: bool,
) -> tuple[Tensor, State]:
    """Run one layer in one direction of time.

    Args:
        step: One step of a cell.
        x: The sequence, shape `(T, B, n)`.
        state: The first state.
        weights: $W_i$ and $W_h$, $b_i$ and $b_h$ if there are biases, and any projection.
        has_biases: Whether there are biases.
        reverse: Whether to begin at the end of the sequence.

    Returns:
        The values of $h$ at all times, and the last state.
    """
    w_ih, w_hh, *rest = weights
    b_ih, b_hh, *projection = rest if has_biases else (None, None, *rest)
    outputs = []
    times = functional.linear(x, w_ih, b_ih).unbind()
    for z in reversed(times) if reverse else times:
        state = step(z, state, w_hh, b_hh, *projection)
        outputs.append(state[0])
    return torch.stack(outputs[::-1] if reverse else outputs), state


for _name, _step in {
    "lstm": _lstm_step,
    "gru": _gru_step,
    "rnn_tanh": _simple_step(torch.tanh),
    "rnn_relu": _simple_step(torch.relu),
}.items():
    rule(_name)(_layers(_step))
    rule(f"{_name}_cell")(_cell(_step))
