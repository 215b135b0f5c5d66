"""Adam as a part of a graph."""

import math
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from .state import Snapshot

SETTINGS = itemgetter(
    "betas", "eps", "weight_decay", "amsgrad", "maximize", "decoupled_weight_decay"
)
"""The settings of a group that the graph keeps. Its learning rate is an input."""


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
        self._optimizer, self._states = optimizer, [optimizer.state[p] for p in parameters]
        counts = torch.stack([state["step"] for state in self._states])
        names = ("exp_avg", "exp_avg_sq")
        averages = [[state[name] for state in self._states] for name in names]
        self.tensors = [*averages[0], *averages[1], counts]
        groups = optimizer.param_groups
        self._members = [
            next(i for i, group in enumerate(groups) if _contains(group, p)) for p in parameters
        ]
        self._settings = self._current_settings()

    def adopt(self) -> None:
        """Let the optimizer count its steps in the tensor of the graph."""
        for state, count in zip(self._states, self.tensors[-1], strict=True):
            state["step"] = count
        named = [("of the state of the optimizer", s) for s in self._optimizer.state.values()]
        self._snapshot = Snapshot(named)
        self._identities = [*map(id, self._optimizer.state.values())]

    @classmethod
    def of(cls, optimizer: Optimizer, parameters: Sequence[nn.Parameter]) -> Self | None:
        """Return the state, or `None` if this is not plain Adam.

        All parameters must have made as many steps, counted on their own device. Hooks and
        methods that replace `step` would not run as a part of a graph.
        """
        if type(optimizer) not in {Adam, AdamW} or not _is_plain(optimizer):
            return None
        if not all(optimizer.state.get(p) for p in parameters):
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

    def change(self) -> str | None:
        """Return what has changed in the optimizer, other than the learning rate, or `None`."""
        if self._settings != self._current_settings():
            return "a setting of the optimizer"
        if not _is_plain(self._optimizer):
            return "`step` of the optimizer, or a hook of it,"
        states = self._optimizer.state.values()
        if [*map(id, states)] != self._identities or not self._snapshot.is_current:
            return "the state of the optimizer"
        return None

    def numbers(self) -> Iterator[float]:
        r"""Yield $η$, $1 - β_1^t$ and $\sqrt{1 - β_2^t}$ of the next step, for each group.

        They are inputs of the graph: inside, they would be computed for each weight.
        """
        t = self.tensors[-1].tolist()[0] + 1
        for group in self._optimizer.param_groups:
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
        groups, threes = self._optimizer.param_groups, numbers.view(-1, 3)
        new = [
            self._step(groups[i], *row, *threes[i].unbind())
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
        return [SETTINGS(group) for group in self._optimizer.param_groups]


def _is_plain(optimizer: Optimizer) -> bool:
    """Return whether `step` is that of torch, maybe counted by a scheduler, without hooks."""
    own = vars(optimizer)
    hooks = own["_optimizer_step_pre_hooks"] or own["_optimizer_step_post_hooks"]
    step = type(optimizer).step
    return (
        not (hooks or _global_optimizer_pre_hooks or _global_optimizer_post_hooks)
        and ("step" not in own or getattr(own["step"], "__wrapped__", None) is step)
        and step.__globals__["__name__"] == Optimizer.__module__
    )


def _contains(group: Mapping[str, Any], parameter: nn.Parameter) -> bool:
    return any(p is parameter for p in group["params"])
