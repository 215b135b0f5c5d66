"""Updates to compile, and a way to trace them without waiting for the compiler."""

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor, nn

from fdsm.training import EMA, CompiledUpdate, Update
from fdsm.typing import Objective


def mlp(d: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Linear(d, 8), nn.SiLU(), nn.Linear(8, 1), nn.Flatten(0))


def traced_only(graph: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor]) -> object:
    """Stand in for the compiler: run the traced graph operation by operation."""
    return graph


def objective_of(objective: Objective, model: nn.Module) -> Callable[..., Tensor]:
    return lambda x, generator, progress: objective(model, x, generator=generator)


class Pair:
    """The same model trained eagerly and compiled, on the same batches with the same seed."""

    def __init__(
        self,
        loss: Callable[[nn.Module], Callable[..., Tensor]],
        model: nn.Module,
        optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW,
        *,
        clip: float | None = None,
        decay: float | None = None,
    ) -> None:
        self.models = model, copy.deepcopy(model)
        self.averages = [None if decay is None else EMA(m, decay) for m in self.models]
        self.updates = [
            kind(loss(m), m, optimizer(m.parameters()), clip, average)
            for kind, m, average in zip(
                (Update, CompiledUpdate), self.models, self.averages, strict=True
            )
        ]
        self.generators = [Generator().manual_seed(0) for _ in self.models]
        self.data = Generator().manual_seed(1)

    @property
    def compiled(self) -> CompiledUpdate:
        update = self.updates[1]
        assert isinstance(update, CompiledUpdate)
        return update

    def train(self, steps: int, shape: tuple[int, ...] = (6, 3)) -> list[dict[str, Tensor]]:
        """Return the metrics of the last step, eager and compiled."""
        for i in range(steps):
            x = torch.randn(shape, generator=self.data)
            metrics = [
                update((x,), generator, i / 10)
                for update, generator in zip(self.updates, self.generators, strict=True)
            ]
        return metrics

    def require_equal(self, metrics: list[dict[str, Tensor]], rtol: float = 1e-10) -> None:
        torch.testing.assert_close(metrics[1], metrics[0], rtol=rtol, atol=1e-12)
        for a, b in zip(*(m.parameters() for m in self.models), strict=True):
            torch.testing.assert_close(b, a, rtol=rtol, atol=1e-12)
        for a, b in zip(*(u.optimizer.state.values() for u in self.updates), strict=True):
            torch.testing.assert_close(dict(b), dict(a), rtol=rtol, atol=1e-12)
        assert torch.equal(*(g.get_state() for g in self.generators))
        if self.averages[0] is not None and self.averages[1] is not None:
            eager, compiled = (a.state_dict() for a in self.averages if a is not None)
            assert eager["updates"] == compiled["updates"]
            torch.testing.assert_close(compiled["model"], eager["model"], rtol=rtol, atol=1e-12)
