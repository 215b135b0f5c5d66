"""A trained model with its fitted transform: sampling, log-densities and checking."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

import fdsm.training.checkpoint as checkpoint
from fdsm.derivatives import FiniteDifference, as_log_density
from fdsm.evaluation import Consistency, check_consistency, log_densities
from fdsm.objectives import SSM
from fdsm.projections import Sphere
from fdsm.samplers import Progress
from fdsm.serialize import find_fields, replace_fields
from fdsm.typing import Objective, is_exact

from ..data import Dataset
from ..data.transforms import Transform
from ..recipes.recipe import HasLogDensity, HasObjective, require_parameters
from .run import Run, RunError, UnfinishedRunError

BATCH = 500
CHECK_ROWS = 64
"""Number of training rows on which finite differences are checked."""


@dataclass(frozen=True)
class SavedModel:
    """A trained model with its run and its fitted transform. It can be used without the data.

    Attributes:
        run: The run it comes from.
        model: The model.
        transform: Fitted transform from stored rows to model inputs.
        shape: The shape of an event in the space of the model.
        max_value: Largest value in the training rows, which is shown as white in images.
        is_integer: Whether the data are integers, such as images of bytes.
        progress: Number of iterations, seconds of training, and the reason why training ended.
    """

    run: Run
    model: nn.Module
    transform: Transform
    shape: torch.Size
    max_value: float
    is_integer: bool
    progress: Mapping[str, Any]

    @classmethod
    def from_training(
        cls, run: Run, model: nn.Module, data: Dataset, progress: Mapping[str, Any]
    ) -> Self:
        """Return the model of a run that has just been trained."""
        is_integer, largest = not data.train.is_floating_point(), float(data.train.max())
        return cls(run, model, data.transform, data.shape, largest, is_integer, progress)

    @classmethod
    def load(cls, run: Run) -> Self:
        """Read the model of a run.

        Args:
            run: The run.

        Returns:
            The model.

        Raises:
            UnfinishedRunError: If training has not finished.
            RunError: If the file does not match the recipe.
        """
        if not run.is_trained:
            raise UnfinishedRunError(run)
        state = checkpoint.load(run.model_path)
        run.require_digest(state.get("settings"), run.model_path)
        try:
            shape = torch.Size(state["shape"])
            require_parameters(run.recipe, shape, sum(t.numel() for t in state["model"].values()))
            model = run.build(shape)
            model.load_state_dict(state["model"])
            saved = cls(
                run,
                model.eval(),
                run.recipe.data.transform.restore(state["transform"]),
                shape,
                float(state["max_value"]),
                bool(state["is_integer"]),
                {**state["progress"], "iterations": int(state["progress"]["iterations"])},
            )
            saved._use_once()
        except Exception as error:  # an untrusted file can be wrong in any way
            raise RunError(f"{run.model_path} does not match its config.json: {error}") from error
        return saved

    def _use_once(self) -> None:
        """Use the model on two rows, so that parts which do not fit together are noticed here."""
        rows = self.transform.inverse(torch.zeros(2, *self.shape))
        if isinstance(self.run.recipe, HasLogDensity):
            self.log_density(rows)

    def save(self) -> None:
        """Write the model into the folder of its run, atomically."""
        state: dict[str, Any] = {
            "model": self.model.state_dict(),
            "transform": self.transform.state(),
            "shape": list(self.shape),
            "max_value": self.max_value,
            "is_integer": self.is_integer,
            "progress": dict(self.progress),
            "settings": self.run.digest,
        }
        checkpoint.save(self.run.model_path, state)

    def sample(self, n: int, progress: Progress, seed: int = 0) -> Tensor:
        """Return samples in the space of the data, shape `(n, *E)`; bytes if the data are bytes.

        Args:
            n: Number of samples.
            progress: Wraps the loops of the sampler, to show progress.
            seed: Random seed.

        Returns:
            The samples.
        """
        generator = self.run.generator("sample", seed)
        parts = [
            self.run.recipe.sample(self.model, self.shape, len(part), generator, progress).cpu()
            for part in torch.split(torch.arange(n), BATCH)
        ]
        x = torch.cat([self.transform.inverse(y) for y in parts])
        return x.round().clamp(0, self.max_value).byte() if self.is_integer else x

    def log_density(self, rows: Tensor) -> Tensor:
        r"""Return the log-density of rows of data, up to a constant unless it is normalized.

        This is the density of the data, $\log p(Tx) + \log|\det T'(x)|$ for the transform $T$.

        Args:
            rows: Rows as they are stored, shape `(N, *E)`.

        Returns:
            One number per row in float64, shape `(N,)`.

        Raises:
            RunError: If the model has no log-density.
        """
        if not isinstance(self.run.recipe, HasLogDensity):
            raise RunError(
                f"the model of {self.run.folder} has no log-density, so it has none for rows: "
                f"a {type(self.run.recipe).__name__} can only be sampled"
            )
        f = self.run.recipe.log_density(self.model)
        dtype = next((p.dtype for p in self.model.parameters()), torch.float32)
        density, transform = as_log_density(f), self.transform
        of_data = lambda x: density(transform.deterministic(x).to(dtype)) + transform.log_det(x)
        return log_densities(of_data, rows, chunk=BATCH, device=self.run.device)

    def check(self, data: Dataset) -> Consistency:
        """Compare finite differences of the model with exact derivatives.

        The objective of the run is checked if it takes derivatives along random directions. If
        these are exact, they are replaced by finite differences with step 0.1. For any other
        objective, FD-SSM of the log-density is checked.

        Args:
            data: The data set of the run.

        Returns:
            The report of `check_consistency`.

        Raises:
            RunError: If there is neither such an objective nor a log-density that is a module.
        """
        recipe, generator = self.run.recipe, self.run.generator("check")
        if isinstance(recipe, HasObjective) and _uses_directions(recipe.objective):
            objective, model = recipe.objective, recipe.objective_model(self.model)
        else:
            density = recipe.log_density(self.model) if isinstance(recipe, HasLogDensity) else None
            if not isinstance(density, nn.Module):
                raise RunError(
                    f"the model of {self.run.folder} cannot be checked: a {type(recipe).__name__} "
                    "has neither an objective with random directions nor a log-density that is "
                    "a module"
                )
            objective, model = SSM(), density
        if all(is_exact(d) for d in find_fields(objective, "derivative")):
            objective = replace_fields(objective, "derivative", lambda _: FiniteDifference())
            objective = replace_fields(objective, "projection", lambda _: Sphere(0.1))
        x = self.transform.sample(data.train[:CHECK_ROWS].to(self.run.device), generator)
        return check_consistency(objective, model, x, generator=generator)


def _uses_directions(objective: Objective) -> bool:
    return all(any(find_fields(objective, name)) for name in ("derivative", "projection"))
