"""Adam as a part of a graph."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer


class AdamState:
    r"""The state of `torch.optim.Adam` or `AdamW` for the parameters of a graph.

    $$m ← β_1 m + (1 - β_1) g, \quad v ← β_2 v + (1 - β_2) g², \quad
      θ ← θ - \frac{η}{1 - β_1^t} \; \frac{m}{\sqrt{v / (1 - β_2^t)} + ε}$$

    AdamW first multiplies $θ$ by $1 - ηλ$; Adam adds $λθ$ to $g$. The tensors are those of the
    optimizer, so that it can be saved and can also make steps itself. Its counts $t$ become
    elements of one tensor.

    Reference:
        Kingma and Ba (2015), https://arxiv.org/abs/1412.6980, Algorithm 1.
        Loshchilov and Hutter (2019), https://arxiv.org/abs/1711.05101, Algorithm 2.

    Attributes:
        tensors: The averages $m$ and $v$ of each parameter and the counts $t$, which the graph
            writes.
    """

    def __init__(self, optimizer: Optimizer, parameters: Sequence[nn.Parameter]) -> None:
        """Look up the state of some parameters.

        Args:
            optimizer: The optimizer, which has made a step before.
            parameters: The parameters with a gradient, in the order of the optimizer.
        """
        states = [optimizer.state[p] for p in parameters]
        counts = torch.stack([state["step"] for state in states])
        for state, count in zip(states, counts, strict=True):
            state["step"] = count
        averages = [[state[name] for state in states] for name in ("exp_avg", "exp_avg_sq")]
        self.tensors = [*averages[0], *averages[1], counts]
        self._all = optimizer.param_groups
        self._members = [
            next(i for i, group in enumerate(self._all) if _contains(group, p)) for p in parameters
        ]
        self._settings = self._current_settings()

    @classmethod
    def of(cls, optimizer: Optimizer, parameters: Sequence[nn.Parameter]) -> Self | None:
        """Return the state, or `None` if this is not plain Adam.

        All parameters must have made as many steps, counted on their own device.
        """
        if type(optimizer) not in {Adam, AdamW}:
            return None
        counts = [optimizer.state[p]["step"] for p in parameters]
        options = [
            group["amsgrad"] or group["maximize"] or isinstance(group["betas"][0], Tensor)
            for group in optimizer.param_groups
        ]
        same = all(c.device == parameters[0].device and c == counts[0] for c in counts)
        return cls(optimizer, parameters) if same and not any(options) else None

    @staticmethod
    def is_missing(optimizer: Optimizer) -> bool:
        """Return whether an optimizer is Adam before its first step, which creates the state."""
        return type(optimizer) in {Adam, AdamW} and not optimizer.state

    @property
    def is_unchanged(self) -> bool:
        """Whether the settings other than the learning rate are those of the graph."""
        return self._settings == self._current_settings()

    def numbers(self) -> Iterator[float]:
        r"""Yield $η$, $1 - β_1^t$ and $\sqrt{1 - β_2^t}$ of the next step, for each group.

        They are inputs of the graph: inside, they would be computed for each weight.
        """
        t = self.tensors[-1][0].item() + 1
        for group in self._all:
            beta1, beta2 = group["betas"]
            yield from (float(group["lr"]), 1 - beta1**t, math.sqrt(1 - beta2**t))

    def step(
        self,
        weights: Sequence[Tensor],
        gradients: Sequence[Tensor],
        tensors: Sequence[Tensor],
        numbers: Tensor,
    ) -> Iterator[Tensor]:
        """Yield the new weights, then the new `tensors`."""
        n = len(weights)
        values = zip(weights, gradients, tensors[:n], tensors[n : 2 * n], strict=True)
        threes = numbers.view(-1, 3)
        new = [
            self._step(self._all[i], *row, *threes[i].unbind())
            for i, row in zip(self._members, values, strict=True)
        ]
        for column in zip(*new, strict=True):
            yield from column
        yield tensors[-1] + 1

    @staticmethod
    def _step(
        group: Mapping[str, Any],
        weight: Tensor,
        g: Tensor,
        m: Tensor,
        v: Tensor,
        lr: Tensor,
        first: Tensor,
        second: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        (beta1, beta2), decay = group["betas"], group["weight_decay"]
        if decay and group["decoupled_weight_decay"]:
            weight = weight * (1 - lr * decay)
        elif decay:
            g = g + decay * weight
        m = m.lerp(g, 1 - beta1)
        v = beta2 * v + (1 - beta2) * g * g
        denominator = v.sqrt() / second + group["eps"]
        return weight - lr / first * (m / denominator), m, v

    def _current_settings(self) -> list[tuple[object, ...]]:
        return [(g["betas"], g["eps"], g["weight_decay"]) for g in self._all]


def _contains(group: Mapping[str, Any], parameter: nn.Parameter) -> bool:
    return any(p is parameter for p in group["params"])
