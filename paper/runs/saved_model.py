"""A trained model with its fitted transform: sampling, scoring and checking."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from ..data import Chain, Dataset, EncodeColumns, FillMissing
from ..data.tables import DateTime
from ..data.transforms import Transform
from fdsm.derivatives import FiniteDifference, as_log_density
from fdsm.evaluation import Consistency, check_consistency, log_densities
from fdsm.objectives import SSM
from fdsm.tables.outliers import OutlierDetector
from fdsm.projections import Sphere
from ..recipes import CrossFittedEBM, require_parameters
from ..recipes.recipe import HasLogDensity, HasObjective, proportionate_samples, seeded
from fdsm.samplers import Progress
from fdsm.samplers.importance import kernel_log_partition
from fdsm.serialize import find_fields, replace_fields
from fdsm.sharding import new_rows, over_rows
from fdsm.training import checkpoint, derived_seed
from fdsm.typing import Objective, is_exact
from fdsm.tables.marginals import Marginals
from .run import Run, RunError, UnfinishedRunError

HELD_OUT_ROWS = 5000
"""Largest number of rows for the calibration of outlier scores, and for distances."""
KNOWN_ROWS = 100_000
"""Largest number of training rows whose values are known values."""
BATCH = 500
CHECK_ROWS = 64
"""Number of training rows on which finite differences are checked."""
SAMPLED_ROWS = 20_000
"""Largest number of training rows for the distributions of the columns of samples."""


class Scores(NamedTuple):
    r"""Scores of rows, each of shape `(N,)`.

    Attributes:
        score: How unusual the row is. Larger is more unusual; 3 means one row in 1,000.
        p_value: Probability that a normal row has at least this score.
        log_density: $\log p(x)$, up to a constant unless the model is normalized.
    """

    score: Tensor
    p_value: Tensor
    log_density: Tensor


@dataclass(frozen=True)
class SavedModel:
    """A trained model with its run and its fitted transform. It can be used without the data.

    Attributes:
        run: The run it comes from.
        model: The model.
        transform: Fitted transform from stored rows to model inputs.
        shape: The shape of an event in the space of the model.
        detector: The outlier detector, if the model has a log-density.
        log_partition: Logarithm of the normalizing constant and its standard error, if all columns
            are numeric and it could be estimated well.
        marginals: The correction of the columns of samples, for tables.
        max_value: Largest value in the training rows, which is shown as white in images.
        is_integer: Whether the data are integers, such as images of bytes.
        progress: Number of iterations, seconds of training, and the reason why training ended.
    """

    run: Run
    model: nn.Module
    transform: Transform
    shape: torch.Size
    detector: OutlierDetector | None
    log_partition: tuple[float, float] | None
    marginals: Marginals | None
    max_value: float
    is_integer: bool
    progress: Mapping[str, Any]

    @classmethod
    def from_training(
        cls, run: Run, model: nn.Module, data: Dataset, progress: Mapping[str, Any]
    ) -> Self:
        """Return the model of a run that has just been trained."""
        is_integer = not data.train.is_floating_point()
        largest = float(data.train.nan_to_num(0.0).max() if not is_integer else data.train.max())
        saved = cls(
            run, model, data.transform, data.shape, None, None, None, largest, is_integer, progress
        )
        if isinstance(run.recipe, CrossFittedEBM):
            return replace(
                saved,
                detector=_cross_fitted_detector(saved, run.recipe, data),
                log_partition=_log_partition(saved, run.recipe, data),
                marginals=_marginals(saved, data),
            )
        if isinstance(run.recipe, HasLogDensity):
            held_out = saved.log_density(data.test[:HELD_OUT_ROWS])
            return replace(saved, detector=_held_out_detector(held_out))
        return saved

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
                _read_detector(state, run.device),
                None if (pair := state.get("log_partition")) is None else (pair[0], pair[1]),
                None if (maps := state.get("marginals")) is None else Marginals(**maps),
                float(state["max_value"]),
                bool(state["is_integer"]),
                {**state["progress"], "iterations": int(state["progress"]["iterations"])},
            )
            saved._use_once()
        except Exception as error:  # an untrusted file can be wrong in any way
            raise RunError(f"{run.model_path} does not match its config.json: {error}") from error
        return saved

    def _use_once(self) -> None:
        """Score and correct rows, so that parts which do not fit together are noticed here."""
        rows = self.transform.inverse(torch.zeros(2, *self.shape))
        rows = rows if self.marginals is None else self.marginals.apply(rows)
        if isinstance(self.run.recipe, HasLogDensity):
            if self.detector is None:
                raise ValueError("it has no outlier detector")
            self.score(rows)
            if self.fills_missing:
                self.score(torch.full_like(rows, torch.nan))
            self.detector.calibration.held_out_p_values()

    def save(self) -> None:
        """Write the model into the folder of its run, atomically."""
        state: dict[str, Any] = {
            "model": self.model.state_dict(),
            "transform": self.transform.state(),
            "shape": list(self.shape),
            "detector": None if self.detector is None else self.detector.state(),
            "log_partition": None if self.log_partition is None else list(self.log_partition),
            "marginals": None if self.marginals is None else self.marginals.state(),
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
        x = self._draw(n, self.run.generator("sample", seed), progress)
        x = x if self.marginals is None else self.marginals.apply(x)
        x = self._with_missing_cells(x, seed)
        return x.round().clamp(0, self.max_value).byte() if self.is_integer else x

    def _draw(self, n: int, generator: torch.Generator, progress: Progress) -> Tensor:
        """Return samples of the model in the space of the data, a batch at a time."""
        sample = lambda n: self.run.recipe.sample(self.model, self.shape, n, generator, progress)
        parts = [new_rows(sample, len(part)).cpu() for part in torch.split(torch.arange(n), BATCH)]
        return torch.cat([self.transform.inverse(y) for y in parts])

    def _with_missing_cells(self, samples: Tensor, seed: int) -> Tensor:
        """Delete the cells of samples that are missing in training rows chosen at random."""
        transform = self.transform
        if not isinstance(transform, Chain) or not transform.steps:
            return samples
        encode, last = transform.steps[0], transform.steps[-1]
        rows = last.rows if isinstance(last, FillMissing) else None
        if rows is None or not isinstance(encode, EncodeColumns) or not bool(rows.isnan().any()):
            return samples
        missing = torch.stack([rows[:, block].isnan().any(1) for block in encode.blocks], 1)
        generator = seeded("cpu", derived_seed(self.run.seed, "missing", seed))
        chosen = torch.randint(len(missing), (len(samples),), generator=generator)
        return torch.where(missing.cpu()[chosen], torch.nan, samples)

    def log_density(self, rows: Tensor) -> Tensor:
        r"""Return the log-density of rows of data, up to a constant unless it is normalized.

        This is the density of the data, $\log p(Tx) + \log|\det T'(x)|$ for the transform $T$.
        Missing cells are filled from similar training rows.

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
        dtype = next((p.dtype for p in self.model.parameters()), torch.float32)
        density, transform = as_log_density(f), self.transform
        of_data = lambda x: density(transform.deterministic(x).to(dtype)) + transform.log_det(x)
        values = log_densities(of_data, rows, chunk=BATCH, device=self.run.device)
        return values if self.log_partition is None else values - self.log_partition[0]

    def score(self, rows: Tensor, *, leave_one_out: bool = False) -> Scores:
        """Return the scores of rows of data.

        Args:
            rows: Rows as they are stored, shape `(N, *E)`.
            leave_one_out: Whether these are the training rows. Then the distance of a row to
                itself does not count, so that outliers among the training rows are found.

        Returns:
            Three numbers per row.
        """
        values = self.log_density(rows)
        assert self.detector is not None
        if not isinstance(self.run.recipe, CrossFittedEBM):
            return Scores(*self.detector.score_rows(lambda v: v[None], values), values)
        detector, densities = self.detector, self.member_log_densities

        def score(rows: Tensor) -> Tensor:
            parts = [
                detector.score_rows(densities, self.inputs(part), leave_one_out=leave_one_out)
                for part in torch.split(rows, BATCH)
            ]
            return torch.cat([torch.stack(part, 1) for part in parts])

        scores, p_values = over_rows(score, rows).cpu().unbind(1)
        return Scores(scores, p_values, values)

    def with_new_values(self, scores: Scores, problems: Mapping[int, int]) -> Scores:
        """Return scores that count values which never occurred in training.

        Such a value, for example an unknown category, makes a row as unusual as the most unusual
        of the `n` held-out rows: its p-value is $1/(n + 1)$, and its score grows by the logarithm.

        Args:
            scores: Scores of the rows.
            problems: Number of new values by row.
        """
        assert self.detector is not None
        smallest = 1 / (len(self.detector.calibration.folds) + 1)
        score, p_value = scores.score.clone(), scores.p_value.clone()
        for row, count in problems.items():
            score[row] -= count * math.log10(smallest)
            p_value[row] = smallest
        return Scores(score, p_value, scores.log_density)

    @property
    def fills_missing(self) -> bool:
        """Whether rows with missing cells can be scored."""
        steps = self.transform.steps if isinstance(self.transform, Chain) else ()
        return any(isinstance(step, FillMissing) for step in steps)

    def completions(self, rows: Tensor) -> Tensor:
        """Return model inputs of rows with missing cells filled in several ways, `(C, N, *E)`."""
        x = self.inputs(rows)
        if not bool(x.isnan().any()):
            return x[None]
        assert isinstance(self.transform, Chain)
        fill = self.transform.steps[-1]
        assert isinstance(fill, FillMissing)
        return fill.completions(x)

    def inputs(self, rows: Tensor) -> Tensor:
        """Return model inputs of rows with NaN in missing cells, shape `(N, *E)`."""
        transform = self.transform
        if isinstance(transform, Chain) and transform.steps:
            *before, last = transform.steps
            transform = Chain(tuple(before)) if isinstance(last, FillMissing) else transform
        dtype = next(self.model.parameters()).dtype
        return transform.deterministic(rows.to(self.run.device)).to(dtype)

    def member_log_densities(self, x: Tensor) -> Tensor:
        """Return log-densities of an ensemble at its scored levels, `(K, N, D) -> (L, K, N)`."""
        assert isinstance(self.run.recipe, CrossFittedEBM)
        return self.run.recipe.member_log_densities(self.model, x)

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


def _cross_fitted_detector(
    saved: SavedModel, recipe: CrossFittedEBM, data: Dataset
) -> OutlierDetector:
    """Return the detector of an ensemble, calibrated on the held-out rows of each fold."""
    # The rows of a table are in random order, so the first ones are a random sample.
    rows = data.train[:HELD_OUT_ROWS]
    folds = recipe.fold_of_rows(len(data.train))[: len(rows)].to(saved.run.device)
    assert data.schema is not None
    training_rows = data.train[:KNOWN_ROWS].clone()
    # New rows usually have new dates.
    training_rows[:, [isinstance(column, DateTime) for column in data.schema.used]] = torch.nan
    return OutlierDetector.fit(
        saved.member_log_densities,
        saved.inputs(rows),
        folds,
        training_rows=saved.inputs(training_rows),
    )


def _log_partition(
    saved: SavedModel, recipe: CrossFittedEBM, data: Dataset
) -> tuple[float, float] | None:
    """Return the logarithm of the normalizing constant and its error, if they can be estimated."""
    if data.schema is None or any(data.schema.num_levels):
        return None  # a density of encoded categories is not a probability of categories
    density = as_log_density(recipe.log_density(saved.model))
    rows = saved.completions(data.train[:2000])[0]
    return kernel_log_partition(density, rows, saved.run.generator("partition"))


def _marginals(saved: SavedModel, data: Dataset) -> Marginals:
    """Return the correction of samples, from samples of the model and training rows."""
    assert data.schema is not None
    count = proportionate_samples(saved.progress["iterations"])
    samples = saved._draw(count, saved.run.generator("marginals"), lambda steps, *_: steps)
    numeric = torch.tensor([levels == 0 for levels in data.schema.num_levels])
    return Marginals.fit(samples, data.train[:SAMPLED_ROWS], numeric)


def _held_out_detector(held_out: Tensor) -> OutlierDetector:
    """Return the detector of a model from log-densities of rows that it has not seen."""
    folds = torch.zeros(len(held_out), dtype=torch.long)
    return OutlierDetector.fit(lambda values: values[None], held_out, folds)


def _read_detector(state: dict[str, Any], device: str) -> OutlierDetector | None:
    if (held_out := state.get("test_log_density")) is not None:  # written by fdsm 0.2.0
        return _held_out_detector(held_out)
    return OutlierDetector.restore(tensors, device) if (tensors := state.get("detector")) else None
