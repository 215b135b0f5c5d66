"""A scikit-learn estimator for tables: density, samples and outlier scores."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from .frame import frame_from
from .frame.text_format import positions
from .model import TableModel
from .outliers import Reason
from .schema import Column, Constant, TableSchema, UsedColumn
from .schema.inference import is_numeric
from .scoring import ScoredTable

if TYPE_CHECKING:
    import pyarrow as pa

Floats = npt.NDArray[np.float64]


class ScoreMatchingDensity(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """A density of a table with outlier scores, trained by denoising score matching.

    It is what `fdsm train` and `fdsm score` use by default: an ensemble of energy-based models,
    trained by cross-fitting, with outlier scores that also use the distances to training rows.
    Columns may be numbers, categories, booleans and dates, with missing cells.

    A table is a frame of pandas, polars or pyarrow, or an array of shape `(N, C)`. The types of
    the columns of a frame are inferred. All columns of an array of numbers are numeric. New frames
    may have their columns in any order, unlike with estimators of scikit-learn.

    Args:
        iterations: Number of training iterations. Default: chosen from the number of rows.
        alpha: Significance level of `predict`: share of normal rows that are called outliers.
        categorical: Names of columns to take as categorical. The columns of an array are called
            0, 1 and so on.
        numeric: Names of columns to take as numeric.
        ignore: Names of columns that the model must not see.
        device: Device, such as `"cpu"` or `"cuda"`.
        random_state: Random seed or `RandomState` of the training.

    Attributes:
        schema_: Types of the columns.
        model_: The trained model.
        n_features_in_: Number of columns.
        feature_names_in_: Names of the columns, if the data was a frame with text as names.
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
        categorical: Sequence[str | int] = (),
        numeric: Sequence[str | int] = (),
        ignore: Sequence[str | int] = (),
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

    def fit(self, X: object, y: object = None) -> Self:
        """Train the model.

        Rows whose cells are all missing are left out.

        Args:
            X: The table.
            y: Ignored.

        Returns:
            The estimator.

        Raises:
            ValueError: If the table or a parameter cannot be used.
        """
        self._check_parameters()
        frame = self._frame(X, reset=True)
        columns = self._columns(X, frame)
        self.model_ = TableModel.fit(
            frame,
            categorical=columns["categorical"],
            numeric=columns["numeric"],
            ignore=columns["ignore"],
            iterations=self.iterations,
            seed=int(check_random_state(self.random_state).randint(2**31)),
            device=self.device,
        )
        self._template = _template(X, frame)
        return self._set_numbers()

    @classmethod
    def load(cls, folder: str | Path, *, alpha: float = 0.05, device: str = "cpu") -> Self:
        """Return the estimator of a model that `fdsm train` or `model_.save(folder)` has written.

        Args:
            folder: The folder.
            alpha: Significance level of `predict`.
            device: Device.

        Returns:
            The estimator. Samples are an arrow table, or an array if the columns have no names.

        Raises:
            ModelError: If the folder does not hold a model, or it is damaged.
        """
        estimator = cls(alpha=alpha, device=device)
        estimator._check_parameters()
        estimator.model_ = TableModel.load(folder, device=device)
        names = estimator.schema_.names
        estimator.n_features_in_ = len(names)
        estimator._template = None
        if names != positions(len(names)):
            estimator.feature_names_in_ = np.array(names, object)
            estimator._template = estimator.model_.schema.decode(
                np.empty((0, len(estimator.schema_.used)))
            )
        return estimator._set_numbers()

    def _set_numbers(self) -> Self:
        """Set the attributes that follow from the model."""
        held_out_scores = self.model_.detector.calibration.held_out_scores()
        self.offset_ = float(held_out_scores.quantile(1 - self.alpha))
        self.n_iter_ = self.model_.training.iterations
        return self

    def fit_predict(self, X: object, y: object = None) -> npt.NDArray[np.int64]:
        """Train the model, and find the outliers among its training rows.

        The distance of a row to itself does not count here.

        Args:
            X: The table.
            y: Ignored.

        Returns:
            1 for normal rows and -1 for outliers, shape `(N,)`.
        """
        scores = self.fit(X)._scores(X, leave_one_out=True).score
        return np.where(scores > self.offset_, -1, 1)

    def score_samples(self, X: object) -> Floats:
        """Return the log-density of each row, shape `(N,)`.

        It is normalized if `model_.log_partition` is not None, and known up to a constant
        otherwise: with categorical columns, and if the constant could not be estimated well. It is
        NaN for rows whose cells are all missing.
        """
        return self._scores(X).log_density

    def outlier_scores(self, X: object) -> Floats:
        """Return how unusual each row is, shape `(N,)`. A score of 3 means one row in 1,000.

        A copy of a training row is not its own neighbor if the training rows are different. If
        they repeat, copies are normal; use `fit_predict` to find outliers among them.
        """
        return self._scores(X).score

    def p_values(self, X: object) -> Floats:
        """Return the probability that a normal row has at least the score of each row, `(N,)`."""
        return self._scores(X).p_value

    def decision_function(self, X: object) -> Floats:
        """Return `offset_ - outlier_scores(X)`, shape `(N,)`. It is negative for outliers."""
        scores = self.outlier_scores(X)
        return self.offset_ - scores

    def predict(self, X: object) -> npt.NDArray[np.int64]:
        """Return 1 for normal rows and -1 for outliers, shape `(N,)`."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def score(self, X: object, y: object = None) -> float:
        """Return minus the mean denoising score-matching loss. Larger is better.

        Unlike the mean log-density, it compares densities that are known up to a constant. The
        noise is the same in every call.

        Args:
            X: The table.
            y: Ignored.

        Returns:
            The negative loss per row and dimension.

        Raises:
            ValueError: If all cells of the table are missing.
        """
        check_is_fitted(self, "model_")
        codes, _ = self.schema_.encode(self._frame(X, reset=False))
        codes = codes[~np.isnan(codes).all(1)]
        if not len(codes):
            raise ValueError("there is no row to score: all cells are missing")
        return -self.model_.loss(torch.from_numpy(codes))

    def explain(self, X: object, count: int = 3) -> list[list[Reason]]:
        """Return the columns that make each row unusual, the most important first.

        Values that never occurred in training, such as unknown categories, come first. Other
        columns follow if the row would be an outlier without these values.

        Args:
            X: The table.
            count: Largest number of reasons of a row.

        Returns:
            The reasons of each row: column, value, expected value and share of the score.
        """
        check_is_fitted(self, "model_")
        frame = self._frame(X, reset=False)
        return self.model_.explain(frame, count)

    def sample(
        self,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = None,
        *,
        given: Mapping[str, object] | Sequence[str] | None = None,
    ) -> Any:  # ruff: ignore[any-type]
        """Draw samples.

        Args:
            n_samples: Number of samples.
            random_state: Random seed or `RandomState`.
            given: Conditions that all samples satisfy. See `TableModel.sample`.

        Returns:
            A frame of the library and with the types that `fit` was given, or an array. Cells of
            columns that the model does not see are missing.

        Raises:
            ValueError: If the number of samples is not positive, or conditions cannot be used.
        """
        check_is_fitted(self, "model_")
        if n_samples < 1:
            raise ValueError(f"n_samples must be at least 1, but is {n_samples}")
        seed = int(check_random_state(random_state).randint(2**31))
        return self._like_input(self.model_.sample(n_samples, given=given, seed=seed))

    def impute(self, X: Any) -> Any:  # ruff: ignore[any-type]
        """Fill the missing cells of a table with their most likely values.

        Args:
            X: The table.

        Returns:
            A table of the same library, with the same columns and types. See `TableModel.impute`,
            which also draws several imputations.
        """
        check_is_fitted(self, "model_")
        frame = self._frame(X, reset=False)
        filled = self.model_.impute(frame)
        if not _is_frame(X):
            array = np.asarray(X)
            return np.stack([c.to_numpy() for c in filled.columns], 1).astype(array.dtype)
        if _is_frame_of("pandas", X):
            return _with_filled_columns(X, filled)
        return type(X)(filled).cast(X.schema) if _is_frame_of("polars", X) else filled

    @property
    def schema_(self) -> TableSchema:
        """Types of the columns."""
        check_is_fitted(self, "model_")
        return self.model_.schema

    def _check_parameters(self) -> None:
        problems = []
        if not 0 < self.alpha < 1:
            problems.append(f"alpha must be between 0 and 1, but is {self.alpha}")
        if self.iterations is not None and self.iterations < 1:
            problems.append(f"iterations must be at least 1, but is {self.iterations}")
        for name in ("categorical", "numeric", "ignore"):
            if isinstance(given := getattr(self, name), str):
                problems.append(f"{name} must be a list of names, but is the text {given!r}")
        if problems:
            raise ValueError("; ".join(problems))

    def _frame(self, X: object, *, reset: bool) -> "pa.Table":
        """Return the table after the checks of scikit-learn, except for the order of columns."""
        if _is_frame(X):
            frame, names = frame_from(X), getattr(self, "feature_names_in_", ())
            if reset or set(frame.column_names) != set(names):
                validate_data(self, X, reset=reset, skip_check_array=True)
            return frame
        array = validate_data(
            self,
            X,
            reset=reset,
            dtype=None,
            ensure_all_finite="allow-nan",
            ensure_min_samples=2 if reset else 1,
        )
        return frame_from(array)

    def _columns(self, X: object, frame: "pa.Table") -> dict[str, list[str]]:
        """Return the columns whose types are given."""
        names = ("categorical", "numeric", "ignore")
        given = {name: [str(column) for column in getattr(self, name)] for name in names}
        if not _is_frame(X):  # a running number in an array is not an identifier
            numbers = (field.name for field in frame.schema if is_numeric(field.type))
            chosen = {column for columns in given.values() for column in columns}
            given["numeric"] += [name for name in numbers if name not in chosen]
        return given

    def _scores(self, X: object, *, leave_one_out: bool = False) -> ScoredTable:
        check_is_fitted(self, "model_")
        frame = self._frame(X, reset=False)
        return self.model_.score(frame, reasons=0, leave_one_out=leave_one_out)

    def _like_input(self, table: "pa.Table") -> Any:  # ruff: ignore[any-type]
        """Return a table as the library of the training data has it, with the same types."""
        template = self._template
        if template is None:
            return np.stack([column.to_numpy() for column in table.columns], 1)
        if _is_frame_of("pandas", template):
            frame = table.to_pandas().set_axis(template.columns, axis=1)
            kept = [_keeps_type(column) for column in self.schema_.columns]
            return frame.astype(template.dtypes[kept].to_dict())
        if _is_frame_of("polars", template):
            return type(template)(table).cast(template.schema, strict=False)
        return table.cast(template.schema)

    def __sklearn_tags__(self) -> Any:  # ruff: ignore[any-type]
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _is_frame(X: object) -> bool:
    return hasattr(X, "__arrow_c_stream__") or hasattr(X, "__dataframe__")


def _is_frame_of(library: str, X: object) -> bool:
    """Return whether an object is a `DataFrame` of a library, without importing the library."""
    module = sys.modules.get(library)
    return module is not None and isinstance(X, module.DataFrame)


def _template(X: Any, frame: "pa.Table") -> Any:  # ruff: ignore[any-type]
    """Return the table without its rows, as a pandas, polars or arrow one. `None` for arrays."""
    if not _is_frame(X):
        return None
    has_slices = _is_frame_of("pandas", X) or _is_frame_of("polars", X)
    return X[:0] if has_slices else frame.slice(0, 0)


def _with_filled_columns(X: Any, filled: "pa.Table") -> Any:  # ruff: ignore[any-type]
    """Return a pandas table whose columns with gaps are replaced by those of another table."""
    result = X.copy()
    for i, name in enumerate(X.columns):
        if X[name].isna().any():
            cells = filled.column(i).to_pandas().set_axis(X.index)
            same = cells.astype(X.dtypes[name])
            # A category that the table does not have would be missing.
            result[name] = cells if (same.isna() & cells.notna()).any() else same
    return result


def _keeps_type(column: Column) -> bool:
    """Return whether samples of a column have only values that its type in pandas allows."""
    return isinstance(column, UsedColumn | Constant)
