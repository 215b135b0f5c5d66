"""A trained model with its fitted transform: sampling, scoring and checking."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from ..data import Dataset
from ..data.transforms import Transform
from ..derivatives import FiniteDifference, as_log_density
from ..evaluation import Consistency, check_consistency, log_densities, typicality
from ..objectives import SSM
from ..projections import Sphere
from ..recipes.recipe import HasLogDensity, HasObjective
from ..samplers import Progress
from ..serialize import find_fields, replace_fields
from ..training import checkpoint
from ..typing import LogDensity, Objective
from .run import Run, RunError, UnfinishedRunError

SCORED_ROWS = 2000
"""Number of training rows and of test rows whose log-densities are saved with the model."""
BATCH = 500
CHECK_ROWS = 64
"""Number of training rows on which finite differences are checked."""


@dataclass(frozen=True)
class Scores:
    r"""Scores of rows, each of shape `(N,)`.

    Attributes:
        log_density: $\log p(x)$, up to a constant unless the model is normalised.
        typicality: $|\log p(x) - E_{train} \log p|$. Larger values are less typical.
        p_value: Fraction of held-out rows that are at least as atypical. Small for outliers.
    """

    log_density: Tensor
    typicality: Tensor
    p_value: Tensor


@dataclass(frozen=True)
class SavedModel:
    """A trained model with its run and its fitted transform. It can be used without the data.

    Attributes:
        run: The run it comes from.
        model: The model.
        transform: Fitted transform from stored rows to model inputs.
        shape: The shape of an event in the space of the model.
        train_log_density: Log-densities of training rows, if the model has a log-density.
        test_log_density: Log-densities of test rows.
        max_value: Largest value in the training rows, which is shown as white in images.
        is_integer: Whether the data are integers, such as images of bytes.
        progress: Number of iterations, seconds of training, and the reason why training ended.
    """

    run: Run
    model: nn.Module
    transform: Transform
    shape: torch.Size
    train_log_density: Tensor | None
    test_log_density: Tensor | None
    max_value: float
    is_integer: bool
    progress: Mapping[str, Any]

    @classmethod
    def from_training(
        cls, run: Run, model: nn.Module, data: Dataset, progress: Mapping[str, Any]
    ) -> Self:
        """Return the model of a run that has just been trained."""
        train = test = None
        if isinstance(run.recipe, HasLogDensity):
            f = run.recipe.log_density(model)
            train, test = (
                _data_log_density(f, data.transform, rows[:SCORED_ROWS], run.device)
                for rows in (data.train, data.test)
            )
        largest, is_integer = float(data.train.max()), not data.train.is_floating_point()
        return cls(
            run, model, data.transform, data.shape, train, test, largest, is_integer, progress
        )

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
        try:
            shape = torch.Size(state["shape"])
            model = run.build(shape)
            model.load_state_dict(state["model"])
            return cls(
                run,
                model.eval(),
                run.recipe.data.transform.restore(state["transform"]),
                shape,
                state["train_log_density"],
                state["test_log_density"],
                state["max_value"],
                state["is_integer"],
                state["progress"],
            )
        except (RuntimeError, KeyError, TypeError, ValueError) as error:
            raise RunError(f"{run.model_path} does not match its config.json: {error}") from error

    def save(self) -> None:
        """Write the model into the folder of its run, atomically."""
        state: dict[str, Any] = {
            "model": self.model.state_dict(),
            "transform": self.transform.state(),
            "shape": list(self.shape),
            "train_log_density": self.train_log_density,
            "test_log_density": self.test_log_density,
            "max_value": self.max_value,
            "is_integer": self.is_integer,
            "progress": dict(self.progress),
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
        generator, parts = self.run.generator("sample", seed), []
        for part in torch.split(torch.arange(n), BATCH):
            y = self.run.recipe.sample(self.model, self.shape, len(part), generator, progress)
            parts.append(self.transform.inverse(y.cpu()))
        x = torch.cat(parts)
        return x.round().clamp(0, self.max_value).byte() if self.is_integer else x

    def log_density(self, rows: Tensor) -> Tensor:
        r"""Return the log-density of rows of data, up to a constant unless it is normalised.

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
                f"the model of {self.run.folder} has no log-density, so it cannot score rows: "
                f"a {type(self.run.recipe).__name__} can only be sampled"
            )
        f = self.run.recipe.log_density(self.model)
        return _data_log_density(f, self.transform, rows, self.run.device)

    def score(self, rows: Tensor) -> Scores:
        """Return the scores of rows of data.

        Args:
            rows: Rows as they are stored, shape `(N, *E)`.

        Returns:
            Three numbers per row.
        """
        values = self.log_density(rows)
        train, test = self.train_log_density, self.test_log_density
        assert train is not None
        assert test is not None
        distances = typicality(values, train)
        held_out = typicality(test, train).sort().values
        more_typical = torch.searchsorted(held_out, distances)
        return Scores(values, distances, 1 - more_typical / len(held_out))

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
        if not any(isinstance(d, FiniteDifference) for d in find_fields(objective, "derivative")):
            objective = replace_fields(objective, "derivative", lambda _: FiniteDifference())
            objective = replace_fields(objective, "projection", lambda _: Sphere(0.1))
        x = self.transform.sample(data.train[:CHECK_ROWS].to(self.run.device), generator)
        return check_consistency(objective, model, x, generator=generator)


def _uses_directions(objective: Objective) -> bool:
    return all(any(find_fields(objective, name)) for name in ("derivative", "projection"))


def _data_log_density(f: LogDensity, transform: Transform, rows: Tensor, device: str) -> Tensor:
    """Return the log-densities of rows of data, a batch at a time, in float64, shape `(N,)`."""
    density = as_log_density(f)
    of_data = lambda x: density(transform.deterministic(x)) + transform.log_det(x)
    return log_densities(of_data, rows, chunk=BATCH, device=device)
