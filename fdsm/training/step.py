"""One training iteration: the loss, its gradient and the update."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Generator, Tensor, nn

from ..typing import Objective, Step
from .compiled import CompiledUpdate
from .optimizers import OptimizerConfig
from .schedules import ConstantSchedule, Schedule, scale_step_size
from .update import EMA, Update

UNCHANGED = ConstantSchedule()

Loss = Callable[[Tensor, Generator, float], Tensor]
"""`batch, generator, progress -> (B,) or scalar`; `progress` goes from 0 to 1 in training."""


def objective_loss(
    objective: Objective, model: Callable[..., Tensor], step_size: Schedule = UNCHANGED
) -> Loss:
    r"""Return the loss of a model under an objective, with a schedule of the step size $ε$.

    Args:
        objective: The objective to minimize.
        model: A log-density or a score.
        step_size: Factor of the radius of the objective's projection during training. Theorem 2
            of the paper requires that it goes to zero.

    Returns:
        The loss for `GradientStep`.
    """

    def loss(batch: Tensor, generator: Generator, progress: float) -> Tensor:
        return scale_step_size(objective, step_size(progress))(model, batch, generator=generator)

    return loss


class GradientStep:
    """An optimizer step on the mean loss of a batch.

    If the loss or its gradient is not finite, the optimizer step is skipped.

    Attributes:
        iteration: Number of completed iterations.
        update: Computes the loss, its gradient and the update.

    Example:
        >>> from fdsm.objectives import SSM
        >>> from fdsm.training import Adam
        >>> class Gaussian(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.precision = nn.Parameter(torch.tensor(3.0))
        ...
        ...     def forward(self, x):
        ...         return -self.precision * x.square().sum(1) / 2
        >>> model, generator = Gaussian(), Generator().manual_seed(0)
        >>> step = GradientStep(objective_loss(SSM(), model), model, Adam(0.1), iterations=200)
        >>> for _ in range(200):
        ...     _ = step(torch.randn(512, 2, generator=generator), generator)
        >>> abs(model.precision.item() - 1) < 0.1
        True
    """

    def __init__(
        self,
        loss: Loss,
        module: nn.Module,
        optimizer: OptimizerConfig,
        iterations: int,
        *,
        average: EMA | None = None,
        compile: bool = False,
    ) -> None:
        """Build the optimizer of the parameters of a module.

        Args:
            loss: The loss to minimize.
            module: The module to train.
            optimizer: Settings of the optimizer.
            iterations: Total number of iterations, for the schedules.
            average: Average of the weights to update after each step.
            compile: Whether to compile the step; see `compile`.
        """
        parameters = [p for p in module.parameters() if p.requires_grad]
        self.config, self.iterations, self.iteration = optimizer, iterations, 0
        self.update = Update(loss, module, optimizer.build(parameters), optimizer.clip, average)
        if compile:
            self.compile()

    def compile(self) -> None:
        """Compile the step as one graph at its next call; see `CompiledUpdate`."""
        if not isinstance(self.update, CompiledUpdate):
            eager = self.update
            self.update = CompiledUpdate(
                eager.loss, eager.module, eager.optimizer, eager.clip, eager.average
            )

    def __call__(self, batch: Tensor, generator: Generator) -> Mapping[str, Tensor]:
        """Train on a batch. Return the loss, the norm of the gradient and the learning rate."""
        progress = self.iteration / max(self.iterations, 1)
        lr = self.config.lr * self.config.schedule(progress)
        for group in self.update.optimizer.param_groups:
            group["lr"] = lr
        metrics = self.update((batch,), generator, progress)
        self.iteration += 1
        return {**metrics, "lr": torch.tensor(lr)}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the optimizer and the number of completed iterations."""
        return {"optimizer": self.update.optimizer_state(), "iteration": self.iteration}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of `state_dict`."""
        self.update.optimizer.load_state_dict(state["optimizer"])
        self.iteration = int(state["iteration"])


class AlternatingSteps:
    """Several steps on each batch, in order.

    For example, autoencoders with an implicit encoder alternate between a step for the score of
    the encoder and a step for the encoder. The metrics of a step have its name as a prefix. The
    `"loss"` is that of the last step.
    """

    def __init__(self, steps: Mapping[str, Step]) -> None:
        """Combine steps.

        Args:
            steps: The steps by name, in order.
        """
        self.steps = dict(steps)

    def __call__(self, batch: Tensor, generator: Generator) -> Mapping[str, Tensor]:
        """Run all steps on a batch."""
        metrics: dict[str, Tensor] = {}
        for name, step in self.steps.items():
            logged = step(batch, generator)
            metrics |= {f"{name}_{key}": value for key, value in logged.items()}
            metrics["loss"] = logged["loss"]
        return metrics

    def compile(self) -> None:
        """Compile each step that can be compiled."""
        for step in self.steps.values():
            if isinstance(step, (GradientStep, AlternatingSteps)):
                step.compile()

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the steps by name."""
        return {name: step.state_dict() for name, step in self.steps.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of `state_dict`."""
        for name, step in self.steps.items():
            step.load_state_dict(state[name])
