"""Steps and batches for tests of the training loop."""

import torch
from torch import Generator, Tensor, nn


class Sum:
    """A step whose loss is the sum of all batches so far."""

    def __init__(self) -> None:
        self.total = torch.zeros(())

    def __call__(self, batch: Tensor, generator: Generator) -> dict[str, Tensor]:
        self.total = self.total + batch.sum()
        return {"loss": self.total}

    def state_dict(self) -> dict[str, Tensor]:
        return {"total": self.total}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.total = state["total"]


def numbered(iteration: int, generator: Generator) -> Tensor:
    return torch.tensor([float(iteration)])


class Line(nn.Module):
    """The loss `a · batch`, whose gradient is the batch."""

    def __init__(self, a: float = 1.0) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.tensor(a))

    def loss(self, batch: Tensor, generator: Generator, progress: float) -> Tensor:
        return self.a * batch


class Remote(Tensor):
    """A tensor as if on another device than the CPU: training must not read it at once."""

    is_cpu = property(lambda self: False)  # type: ignore[assignment]


class RemoteLoss:
    """A step whose loss is the mean of the batch, on another device."""

    def __call__(self, batch: Tensor, generator: Generator) -> dict[str, Tensor]:
        return {"loss": batch.mean().as_subclass(Remote), "lr": torch.tensor(0.5)}

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        pass
