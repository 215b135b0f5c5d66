"""One iteration of training: a loss, its gradient, an update."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Generator, Tensor, nn

from ..typing import Objective, Step
from .optimizers import OptimizerConfig
from .schedules import ConstantSchedule, Schedule, scale_step_size

UNCHANGED = ConstantSchedule()

Loss = Callable[[Tensor, Generator, float], Tensor]
"""`batch, generator, done -> (B,) or scalar`; `done` is the fraction of the training done."""


def objective_loss(
    objective: Objective, model: Callable[..., Tensor], step_size: Schedule = UNCHANGED
) -> Loss:
    r"""Return the loss of a model under an objective, with a step $ε$ that may go down.

    Args:
        objective: What to minimise.
        model: A log-density or a score.
        step_size: What the radius of the objective's projection is multiplied by. Theorem 2
            of the paper wants it to go to zero.

    Returns:
        The loss for `GradientStep`.
    """

    def loss(batch: Tensor, generator: Generator, done: float) -> Tensor:
        return scale_step_size(objective, step_size(done))(model, batch, generator=generator)

    return loss


class GradientStep:
    """A step down the gradient of a mean loss.

    If the loss or its gradient is not finite, nothing is changed: the optimizer is not run.

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
        self, loss: Loss, module: nn.Module, optimizer: OptimizerConfig, iterations: int
    ) -> None:
        """Make a step that trains the parameters of a module.

        Args:
            loss: What to minimise.
            module: Whose parameters to train.
            optimizer: How.
            iterations: How many there will be, for schedules.
        """
        self.loss = loss
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        self.recipe = optimizer
        self.optimizer = optimizer.build(self.parameters)
        self.iterations = iterations
        self.iteration = 0

    def __call__(self, batch: Tensor, generator: Generator) -> Mapping[str, Tensor]:
        """Train on a batch; return its loss, the gradient's norm and the learning rate."""
        done = self.iteration / max(self.iterations, 1)
        lr = self.recipe.lr * self.recipe.schedule(done)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(batch, generator, done).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(self.parameters, self.recipe.clip or torch.inf)
        if bool((loss + norm).isfinite()):
            self.optimizer.step()
        self.iteration += 1
        return {"loss": loss.detach(), "grad_norm": norm, "lr": torch.tensor(lr)}

    def state_dict(self) -> dict[str, Any]:
        """Return the optimizer's state and the number of iterations done."""
        return {"optimizer": self.optimizer.state_dict(), "iteration": self.iteration}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.optimizer.load_state_dict(state["optimizer"])
        self.iteration = int(state["iteration"])


class AlternatingSteps:
    """Several steps on each batch, one after the other.

    As for autoencoders with an implicit encoder, of which one step trains the score of the
    encoder and the next the encoder with that score. What they log gets their name as a prefix;
    the `"loss"` is that of the last.
    """

    def __init__(self, steps: Mapping[str, Step]) -> None:
        """Make one step of many.

        Args:
            steps: The steps by name, in their order.
        """
        self.steps = dict(steps)

    def __call__(self, batch: Tensor, generator: Generator) -> Mapping[str, Tensor]:
        """Take all steps on a batch."""
        metrics: dict[str, Tensor] = {}
        for name, step in self.steps.items():
            logged = step(batch, generator)
            metrics |= {f"{name}_{key}": value for key, value in logged.items()}
            metrics["loss"] = logged["loss"]
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the steps by name."""
        return {name: step.state_dict() for name, step in self.steps.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        for name, step in self.steps.items():
            step.load_state_dict(state[name])
