"""A scikit-learn estimator for tables: density, samples and outlier scores."""

import tempfile
import threading
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import torch

from .data import Table, TableSchema, frame_from
from .data.files.table import split_frame
from .outliers import Reason
from .recipes import CrossFittedEBM, choose_preset, prepare_source
from .recipes.recipe import seeded
from .runs import Run, SavedModel, train
from .runs.explain import explain

try:
    from sklearn.base import BaseEstimator, DensityMixin  # type: ignore[import-untyped]
    from sklearn.utils import check_random_state  # type: ignore[import-untyped]
    from sklearn.utils.validation import (  # type: ignore[import-untyped]
        check_is_fitted,
        validate_data,
    )
except ImportError as error:
    raise ImportError(
        "ScoreMatchingDensity needs scikit-learn: pip install 'fdsm[sklearn]'"
    ) from error

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

Floats = npt.NDArray[np.float64]

_training = threading.Lock()
"""Weights are initialised by torch's global generator, so threads train one after another."""


class ScoreMatchingDensity(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """A density of a table with outlier scores, trained by denoising score matching.

    It is what `fdsm train` and `fdsm score` use by default: an ensemble of energy-based models,
    trained by cross-fitting, with outlier scores that also use the distances to training rows.
    Columns may be numbers, categories, booleans and dates, with missing cells.

    Args:
        iterations: Number of training iterations. Default: chosen from the number of rows.
        alpha: Significance level of `predict`: share of normal rows that are called outliers.
        categorical: Names of columns to take as categorical.
        numeric: Names of columns to take as numeric.
        ignore: Names of columns that the model must not see.
        device: Device, such as `"cpu"` or `"cuda"`.
        random_state: Random seed or `RandomState` of the training.

    Attributes:
        schema_: Types of the columns.
        n_features_in_: Number of columns.
        feature_names_in_: Names of the columns, if the data was a frame with names.
        n_iter_: Number of training iterations.
        offset_: Score from which on rows are outliers.

    Example:
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> model = ScoreMatchingDensity(iterations=50, random_state=0).fit(X)
        >>> model.predict([[0.0, 0.5], [9.0, 9.0]])
        array([ 1, -1])
    """

    def __init__(
        self,
        *,
        iterations: int | None = None,
        alpha: float = 0.05,
        categorical: Sequence[str] = (),
        numeric: Sequence[str] = (),
        ignore: Sequence[str] = (),
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.iterations = iterations
        self.alpha = alpha
        self.categorical = categorical
        self.numeric = numeric
        self.ignore = ignore
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train the model.

        Args:
            X: The table: a frame of pandas, polars or pyarrow, or an array, shape `(N, C)`.
            y: Ignored.

        Returns:
            The estimator.

        Raises:
            ValueError: If the table or a parameter cannot be used.
        """
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha must be between 0 and 1, but is {self.alpha}")
        if self.iterations is not None and self.iterations < 1:
            raise ValueError(f"iterations must be at least 1, but is {self.iterations}")
        frame = self._frame(X, reset=True)
        self.schema_ = TableSchema.infer(
            frame, categorical=self.categorical, numeric=self.numeric, ignore=self.ignore
        )
        source = prepare_source(Table("data in memory"))
        data = split_frame(source, frame, self.schema_, {})  # type: ignore[arg-type]
        recipe = choose_preset(source, data).recipe
        assert isinstance(recipe, CrossFittedEBM)
        plan = recipe.plan
        if self.iterations is not None:
            count = self.iterations
            every = max(1, count // 40)
            plan = replace(plan, iterations=count, validate_every=every, patience=10 * every)
        recipe = replace(recipe, plan=replace(plan, checkpoint_every=plan.iterations))
        data = replace(data, transform=recipe.data.transform.fit(data.train))
        seed = int(check_random_state(self.random_state).randint(2**31))
        with (
            _training,
            torch.random.fork_rng(devices=[]),
            tempfile.TemporaryDirectory() as folder,
        ):
            run = Run.create(Path(folder), recipe, seed=seed, device=self.device)
            saved = train(run, data)
        self.model_ = saved
        # In float64 the scores of a row do not depend on the other rows of a batch.
        self._scorer = replace(saved, model=deepcopy(saved.model).double())
        self.n_iter_ = int(saved.progress["iterations"])
        assert saved.detector is not None
        known = saved.detector.calibration.held_out_scores()
        self.offset_ = float(known.quantile(1 - self.alpha))
        return self

    def score_samples(self, X: Any) -> Floats:
        """Return the log-density of each row, shape `(N,)`.

        It is normalized if `model_.log_partition` is not None, and relative to other rows
        otherwise.
        """
        return self._scores(X)[2]

    def outlier_scores(self, X: Any) -> Floats:
        """Return how unusual each row is, shape `(N,)`. A score of 3 means one row in 1,000."""
        return self._scores(X)[0]

    def p_values(self, X: Any) -> Floats:
        """Return the probability that a normal row has at least the score of each row, `(N,)`."""
        return self._scores(X)[1]

    def decision_function(self, X: Any) -> Floats:
        """Return `offset_ - outlier_scores(X)`, shape `(N,)`. It is negative for outliers."""
        return self.offset_ - self.outlier_scores(X)

    def predict(self, X: Any) -> npt.NDArray[np.int64]:
        """Return 1 for normal rows and -1 for outliers, shape `(N,)`."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the mean denoising score-matching loss. Larger is better.

        It compares densities that are known up to a constant, which log-densities do not.

        Args:
            X: The table.
            y: Ignored.

        Returns:
            The negative loss per row and dimension.
        """
        rows = self._codes(X)
        recipe = self.model_.run.recipe
        assert isinstance(recipe, CrossFittedEBM)
        inputs = self.model_.completions(rows)[0]
        x = inputs.expand(recipe.folds, *inputs.shape).contiguous()
        losses = recipe.losses(self.model_.model, x, seeded(self.device, 0), create_graph=False)
        return -float(losses.mean())

    def explain(self, X: Any, count: int = 3) -> list[list[Reason]]:
        """Return the columns that make each row unusual.

        Args:
            X: The table.
            count: Largest number of reasons of a row.

        Returns:
            The reasons of each row: column, value, expected value and share of the score.
        """
        check_is_fitted(self)
        codes, problems = self.schema_.encode(self._frame(X, reset=False))
        found = explain(self._scorer, self.schema_, torch.from_numpy(codes), count)
        for row, cells in problems.items():
            found[row] = [Reason(column, text, "", 1.0) for column, text in cells] + found[row]
        return [reasons[:count] for reasons in found]

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Draw samples.

        Args:
            n_samples: Number of samples.
            random_state: Random seed or `RandomState`.

        Returns:
            A frame of the library that `fit` was given, or an array.
        """
        check_is_fitted(self)
        seed = int(check_random_state(random_state).randint(2**31))
        codes = self.model_.sample(n_samples, lambda steps, *_: steps, seed=seed)
        return self._like_input(self.schema_.decode(codes.double().numpy()))

    def _scores(self, X: Any) -> tuple[Floats, Floats, Floats]:
        check_is_fitted(self)
        codes, problems = self.schema_.encode(self._frame(X, reset=False))
        parts = self._scorer.with_new_values(
            self._scorer.score(torch.from_numpy(codes)),
            {row: len(cells) for row, cells in problems.items()},
        )
        score, p_value, log_density = (part.double().numpy() for part in parts)
        return score, p_value, log_density

    def _codes(self, X: Any) -> torch.Tensor:
        check_is_fitted(self)
        return torch.from_numpy(self.schema_.encode(self._frame(X, reset=False))[0])

    def _frame(self, X: Any, *, reset: bool) -> "pa.Table":
        if hasattr(X, "columns") or hasattr(X, "column_names"):
            validate_data(self, X, reset=reset, skip_check_array=True)
            self._kind = type(X).__module__.split(".")[0] if reset else self._kind
            return frame_from(X)
        X = validate_data(
            self,
            X,
            reset=reset,
            dtype=np.float64,
            ensure_all_finite="allow-nan",
            ensure_min_samples=2 if reset else 1,
        )
        if reset:
            self._kind = "numpy"
        return frame_from(X)

    def _like_input(self, table: "pa.Table") -> Any:
        if self._kind == "pandas":
            return table.to_pandas()
        if self._kind == "polars":
            import polars

            return polars.from_arrow(table)
        if self._kind == "pyarrow":
            return table
        return np.stack([column.to_numpy() for column in table.columns], 1).astype(np.float64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
