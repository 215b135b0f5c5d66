"""A model of a table: density, outlier scores with reasons, and samples."""

import json
import math
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self, overload

import pyarrow as pa
import torch
from torch import Generator, Tensor

from .. import __version__
from ..atomic_io import create_folder
from ..models import NoiseConditionalEnsemble
from ..samplers import Progress
from ..serialize import Json, from_json, has_type, to_json
from ..training import Callback, checkpoint, derived_seed
from ..typing import Objective
from ..untrusted import InputError, quote, read_json
from .comparison import classifier_auc, compare_densities
from .conditionals import CellView, Conditionals
from .encoder import EncodeColumns, Encoder
from .ensemble import (
    FOLDS,
    SCORED_LEVELS,
    Ensemble,
    choose_objective,
    default_iterations,
    fold_of_rows,
    objective_title,
    train_ensemble,
)
from .errors import DataError, problems_of
from .explain import explain
from .frame import TableFile, frame_from, read_table
from .gibbs import redraw
from .given import Given
from .heavy_tails import NormalizeTails
from .imputation import Imputation, fill_within_folds
from .imputing import fill_frames, imputation_generators
from .normalization import flow_log_partition
from .outliers import OutlierDetector, Reason
from .relations import Relations
from .schema import Categorical, DateTime, Numeric, TableSchema, copies_sentence, training_rows
from .scoring import ScoredTable, explain_frame, score_frames, table_frames
from .summary import UNUSUAL_P, FileRecord, Summary, Training, as_written, summarize

FORMAT = "fdsm table 2"
TRAINING_ROWS = 200_000
"""Largest number of rows for encoder and network, about as many as 2,000 batches draw."""
CALIBRATION_ROWS = 100_000
"""Largest number of held-out rows that outlier scores are calibrated on."""
VALUE_ROWS = 100_000
"""Largest number of training rows whose values are remembered."""
SWEEPS = 5
"""How often each cell of a sample is drawn again given the other cells."""
ROUNDS = 10
"""How often samples that do not satisfy the conditions or break relations are drawn again."""
PARTITION_ROWS = 2000
"""Largest number of training rows for the normalizing constant."""
SUMMARY_ROWS, SUMMARY_SCORES = 100_000, 2000
"""Largest number of training rows in a summary, and of their scores."""
EXPLAINED_CELLS, MIN_EXPLAINED_ROWS = 1000, 5
"""Number of cells of training rows whose reasons are counted in a summary, and of rows of wide
tables."""
SAMPLE_BATCH = 1000
Stages = Callable[[str], Progress]
"""Returns a wrapper of the loop of a stage of the work from its name, to show progress."""


def silent(name: str) -> Progress:
    """Show no progress of a stage."""
    return lambda steps: steps


class ModelError(InputError):
    """A folder does not hold a model of a table, or the model is damaged."""


class RowScores(NamedTuple):
    """Scores of rows, shape `(N,)` each, float64.

    Attributes:
        score: How unusual the row is. Larger is more unusual; 3 means one row in 1,000.
        p_value: Probability that a normal row has at least this score.
        log_density: Log-density in nats, up to a constant unless the model is normalized.
    """

    score: Tensor
    p_value: Tensor
    log_density: Tensor


@dataclass(frozen=True, repr=False)
class TableModel:
    """A density of the rows of a table, with outlier scores, reasons and samples.

    Columns may be numbers, categories, booleans and dates, with missing cells. The density is an
    ensemble of energy-based models, trained by an objective of `fdsm.objectives`; see
    `fdsm.tables.ensemble`. `ScoreMatchingDensity` is the same model with the methods of
    scikit-learn.

    Attributes:
        schema: Types of the columns.
        encoder: From codes of the columns to inputs of the network.
        imputation: Fills missing cells.
        ensemble: The network and its objective.
        detector: Outlier scores and p-values.
        relations: Relations between columns that hold in the training rows.
        log_partition: Logarithm of the normalizing constant and its standard error, by the
            probability flow; see `fdsm.tables.normalization`. `None` if it is not known: with
            categorical columns, many columns, or if it could not be estimated to within 0.1 nats.
            Then log-densities are known up to a constant.
        file: The table that the model was trained on.
        training: How it was trained.

    Example:
        >>> import numpy as np
        >>> table = np.random.default_rng(0).normal(size=(200, 2))
        >>> model = TableModel.fit(table, iterations=50)
        >>> model.score([[0.0, 0.5], [9.0, 9.0]]).p_value < 0.05
        array([False,  True])
    """

    schema: TableSchema
    encoder: Encoder
    imputation: Imputation
    ensemble: Ensemble
    detector: OutlierDetector
    relations: Relations
    log_partition: tuple[float, float] | None
    file: FileRecord
    training: Training

    @classmethod
    def fit(
        cls,
        table: object,
        *,
        categorical: Sequence[str] = (),
        numeric: Sequence[str] = (),
        ignore: Sequence[str] = (),
        objective: Objective | None = None,
        iterations: int | None = None,
        seed: int = 0,
        device: str = "cpu",
        progress: Callback | None = None,
        stages: Stages = silent,
    ) -> Self:
        """Train a model.

        Args:
            table: Path of a file, a frame of pandas, polars or pyarrow, an array `(N, C)`, or a
                `TableFile`.
            categorical: Names of columns to take as categorical. The columns of an array are
                called `"0"`, `"1"` and so on.
            numeric: Names of columns to take as numeric. Cells that are not numbers are missing.
            ignore: Names of columns that the model must not see.
            objective: The objective of the ensemble. Default: denoising score matching; see
                `fdsm.tables.choose_objective`.
            iterations: Largest number of training iterations. Default: chosen from the number of
                rows.
            seed: Random seed.
            device: Device.
            progress: Called after each iteration.
            stages: Returns a wrapper of the loop of a stage of the work from its name, to show
                progress.

        Returns:
            The model.

        Raises:
            DataError: If the table cannot be used.
            NonFiniteLossError: If the training diverges.

        Warns:
            UserWarning: If rows are equal, or copies of rows were left out.
        """
        started = datetime.now(UTC)
        source = _read(table, categorical)
        frame = source.table
        with problems_of(source.name):
            schema = TableSchema.infer(
                frame, categorical=categorical, numeric=numeric, ignore=ignore
            )
            rows = training_rows(frame, schema)
        if copies := copies_sentence(rows.copies, rows.equal_rows):
            warnings.warn(copies, stacklevel=2)
        file = FileRecord(
            source.name,
            frame.num_rows,
            rows.dropped,
            rows.copies,
            rows.equal_rows,
            source.sampled_rows,
            source.sha256,
        )
        objective = choose_objective() if objective is None else objective
        stages("Looking for relations between columns")
        relations = Relations.fit(torch.from_numpy(rows.codes), schema)
        stages("Encoding the table and filling gaps")
        codes = torch.from_numpy(rows.codes)[:TRAINING_ROWS]  # they are in random order
        encoder = Encoder.fit(codes, schema.num_levels)
        inputs, folds = encoder(codes).to(device), fold_of_rows(len(codes)).to(device)
        imputation = Imputation.fit(inputs)
        completed = fill_within_folds(inputs, folds)
        ensemble, history = train_ensemble(
            completed,
            objective,
            iterations=default_iterations(len(rows.codes)) if iterations is None else iterations,
            seed=seed,
            device=device,
            progress=progress,
        )
        conditionals = Conditionals.fit(
            _cell_view(schema, encoder),
            completed.rows,
            folds,
            codes.isnan(),
            seed,
            stages("Growing trees for each column"),
        )
        del completed  # as large as the table
        detector = _calibrate(
            ensemble,
            conditionals,
            relations,
            codes,
            inputs,
            stages("Calibrating scores on held-out rows"),
        )
        log_partition = None
        if not any(schema.num_levels):  # densities of encoded categories are no probabilities
            log_partition = flow_log_partition(
                ensemble,
                imputation.nearest(inputs[:PARTITION_ROWS]),
                _generator(seed, "partition", device),
            )
        return cls(
            schema,
            encoder,
            imputation,
            ensemble,
            detector,
            relations,
            log_partition,
            file,
            Training(
                history.iterations,
                history.seconds,
                history.losses,
                seed,
                objective_title(objective),
                sum(p.numel() for p in ensemble.network.parameters()),
                torch.__version__,
                __version__,
                started.isoformat(timespec="seconds"),
            ),
        )

    def __repr__(self) -> str:
        """Return the columns. The tensors of a model include training rows."""
        return f"TableModel({self.file.rows:,} rows, {self.schema.describe()})"

    @property
    def is_normalized(self) -> bool:
        """Whether the integral of the density is 1, up to the error of `log_partition`."""
        return self.log_partition is not None

    @property
    def device(self) -> torch.device:
        """The device of the network."""
        return next(self.ensemble.network.parameters()).device

    @property
    def smallest_p_value(self) -> float:
        """The smallest possible p-value, which depends on the number of calibration rows."""
        return 1 / (int(self.detector.calibration.kept.sum()) + 1)

    def inputs(self, codes: Tensor) -> Tensor:
        """Return inputs of the network, `(N, C) -> (N, D)`, float64. NaN in missing cells."""
        return self.encoder(codes.to(self.device)).double()

    def outlier_score(self, x: Tensor) -> Tensor:
        """Return the outlier score of inputs, shape `(N, D) -> (N,)`."""
        measures = self.detector.measures(self._exact.member_log_densities, x)
        return self.detector.calibration.score(measures)

    def problem_surprise(self, name: str) -> float:
        """Return how surprising a cell with an unknown category or an unreadable value is.

        This is minus the decimal logarithm of the probability of such a cell, estimated from the
        training rows.

        Args:
            name: Name of the column.
        """
        names = [column.name for column in self.schema.used]
        if name in names and self.schema.num_levels[names.index(name)]:
            return float(self.detector.new_category[names.index(name)])
        columns = {column.name: column for column in self.schema.columns}
        unreadable = getattr(columns.get(name), "unreadable", 0)
        return math.log10((self.file.rows + 1) / (unreadable + 0.5))

    def score_codes(
        self,
        codes: Tensor,
        problems: Tensor | None = None,
        *,
        leave_one_out: bool = False,
        progress: Progress = lambda steps: steps,
    ) -> RowScores:
        r"""Return the scores of rows.

        The log-density is that of the data, $\log p(Tx) + \log|\det T'(x)|$ for the encoder $T$.
        It is averaged over several completions of a row with missing cells.

        Args:
            codes: Codes of the rows, shape `(N, C)`. NaN in missing cells.
            problems: Surprise of cells that have no code, shape `(N,)`; see `problem_surprise`.
                NaN for rows without such cells. Only their missing cells count as gaps.
            leave_one_out: Whether these are the training rows. Then the distance of a row to
                itself does not count, so that outliers among the training rows are noticed.
            progress: Wraps the loop over blocks of rows, to show progress.

        Returns:
            Three numbers per row.
        """
        calibration = self.detector.calibration
        broken = _broken(self.relations, codes, leave_one_out=leave_one_out)
        gaps = self.detector.gaps.surprise(codes.isnan(), leave_one_out=leave_one_out).cpu()
        if problems is not None:
            broken = torch.maximum(broken, problems.nan_to_num(0.0))
            gaps = gaps.where(problems.isnan(), 0.0)
        measures = self.detector.measures(
            self._exact.member_log_densities,
            self.inputs(codes),
            broken,
            gaps,
            leave_one_out=leave_one_out,
            progress=progress,
        )
        log_z = 0.0 if self.log_partition is None else self.log_partition[0]
        log_density = -measures[0].mean(0).cpu() + self.encoder.log_det(codes).cpu() - log_z
        score, p_value = calibration.score(measures), calibration.p_value(measures)
        return RowScores(score.cpu(), p_value.cpu(), log_density)

    def score(
        self,
        table: object,
        *,
        fdr: float = 0.1,
        alpha: float | None = None,
        top: int | None = None,
        reasons: int = 3,
        leave_one_out: bool = False,
        progress: Progress = lambda steps: steps,
    ) -> ScoredTable:
        """Score every row of a table: how unusual it is, and why.

        Args:
            table: Path of a file, a frame of pandas, polars or pyarrow, or an array `(N, C)`,
                with the columns of the training table in any order.
            fdr: False discovery rate: the largest expected share of normal rows among the flagged
                ones.
            alpha: Flag the rows with at most this p-value instead. Of normal rows this is the
                share that is flagged.
            top: Flag this many rows with the highest scores instead.
            reasons: Largest number of reasons of an unusual row. 0 saves the time for them.
            leave_one_out: Whether these are the training rows.
            progress: Wraps the loop over blocks of rows, to show progress.

        Returns:
            The scores.

        Raises:
            DataError: If the file is not a table, or lacks columns.
        """
        frames = table_frames(table, self.schema.names)
        return score_frames(
            self,
            frames,
            fdr=fdr,
            alpha=alpha,
            top=top,
            reasons=reasons,
            leave_one_out=leave_one_out,
            progress=progress,
        )

    def explain(self, table: object, count: int = 3) -> list[list[Reason]]:
        """Return the columns that make each row unusual, the most important first.

        Values that never occurred in training, such as unknown categories, come first. Other
        columns follow if the row would be among the most unusual 5 % without these values.

        Args:
            table: The table, as for `score`.
            count: Largest number of reasons of a row.

        Returns:
            The reasons of each row: column, value, expected value and share of the score.
        """
        return [
            reasons[:count]
            for frame in table_frames(table, self.schema.names)
            for reasons in explain_frame(self, frame, count)
        ]

    def sample(
        self,
        n: int,
        *,
        given: Mapping[str, object] | Sequence[str] | None = None,
        seed: int = 0,
        progress: Progress = lambda steps: steps,
    ) -> pa.Table:
        """Draw samples: an Arrow table with the columns and types of the training table.

        Args:
            n: Number of samples.
            given: Conditions: texts such as `["weather=snow", "wind>10"]`, or by column a value or
                a pair of the smallest and largest value, of which `None` is no limit, such as
                `{"weather": "snow", "wind": (10, None)}`.
            seed: Random seed.
            progress: Wraps the loop of the sampler, to show progress.

        Returns:
            The samples. Cells are missing as in training rows chosen at random. The relations
            between columns hold, and all categories occur in the training table.

        Raises:
            DataError: If conditions cannot be used, or no sample satisfies them.
        """
        codes = self.sample_codes(n, given=given, seed=seed, progress=progress)
        return self.schema.decode(codes.numpy())

    def sample_codes(
        self,
        n: int,
        *,
        given: Mapping[str, object] | Sequence[str] | None = None,
        seed: int = 0,
        progress: Progress = lambda steps: steps,
    ) -> Tensor:
        """Return the codes of samples, shape `(n, C)`, float64. See `sample`.

        A sample of the density is a start, from which each cell is drawn again given the other
        cells. Where there are conditions, training rows that satisfy them are the start.

        Raises:
            DataError: If conditions cannot be used, or no sample satisfies them.
        """
        generator = _generator(derived_seed(self.training.seed, seed), "sample")
        conditions = Given.parse(self.schema, given)
        codes = torch.empty(0, len(self.schema.used)).double()
        for i in range(ROUNDS):
            drawn = self._draw(n - len(codes), conditions, generator, progress)
            drawn = self._written(self.relations.repair(drawn, generator))
            is_good = conditions.holds(drawn)
            if i < ROUNDS - 1:  # relations that contradict each other are broken in the end
                is_good &= ~self.relations.broken(drawn).any(0)
            codes = torch.cat([codes, drawn[is_good]])
            if len(codes) == n:
                break
        else:
            raise DataError(
                f"only {len(codes):,} of {n:,} samples satisfy the conditions and the relations "
                "between the columns. Use wider conditions"
            )
        rows = self.imputation.rows.cpu()
        missing = torch.stack([rows[:, block].isnan().any(1) for block in self.encoder.blocks], 1)
        missing[:, conditions.columns] = False
        chosen = torch.randint(len(missing), (n,), generator=generator)
        return torch.where(missing[chosen], torch.nan, codes)

    def _draw(self, n: int, conditions: Given, generator: Generator, progress: Progress) -> Tensor:
        """Return codes of samples before relations are repaired, shape `(n, C)`."""
        forests, allowed = self.detector.conditionals, self.real_categories()
        is_redrawn = torch.ones(n, len(self.schema.used), dtype=torch.bool)
        is_redrawn[:, conditions.fixed] = False
        if not conditions.columns:
            x = _draw(self.ensemble, n, generator, progress)
        else:
            codes = self._written(self.encoder.inverse(forests.rows.cpu()))
            conditions.require_some(self.schema, codes)
            for j in conditions.columns:
                allowed[j] = conditions.holds_in(codes, j).to(self.device) & allowed.get(j, True)
            start = conditions.holds(codes).nonzero().flatten()
            x = forests.rows[start[torch.randint(len(start), (n,), generator=generator)]]
        x = redraw(
            forests,
            x.double(),
            is_redrawn,
            sweeps=SWEEPS,
            generator=generator,
            allowed=allowed,
        )
        return self.encoder.inverse(x.cpu())

    def _written(self, codes: Tensor) -> Tensor:
        """Return codes as they are after they are written and read again, shape `(N, C)`."""
        return torch.from_numpy(as_written(self.schema, self.rounded(codes)))

    def rounded(self, codes: Tensor) -> Tensor:
        """Return codes without the rounding errors of inputs, which are float32, `(N, C)`.

        Numbers whose decimals are not fixed by the schema are rounded to about a millionth of
        their standard deviation, so a cell of 9.7 is not 9.700000005.
        """
        result = codes.clone()
        for j, (column, block) in enumerate(
            zip(self.schema.used, self.encoder.blocks, strict=True)
        ):
            if isinstance(column, Numeric) and column.decimals is None and column.levels is None:
                scale = float(self.encoder.columns.scale[block.start])
                if 1e-14 < scale < 1e14:  # beyond, powers of ten may overflow
                    digits = 6 - math.floor(math.log10(scale))
                    result[:, j] = result[:, j].round(decimals=digits)
        return result

    def real_categories(self) -> dict[int, Tensor]:
        """Return which rows of the forests have a category of their own, by column.

        In other rows, a rare category is merged with others. Samples do not have the merged one.
        """
        forests = self.detector.conditionals
        return {
            j: forests.cells[:, j] != len(column.levels) - 1
            for j, column in enumerate(self.schema.used)
            if isinstance(column, Categorical) and column.merged
        }

    @overload
    def impute(self, table: object, *, draws: None = None, seed: int = 0) -> pa.Table: ...

    @overload
    def impute(self, table: object, *, draws: int, seed: int = 0) -> list[pa.Table]: ...

    def impute(
        self, table: object, *, draws: int | None = None, seed: int = 0
    ) -> pa.Table | list[pa.Table]:
        """Fill the missing cells of a table.

        Each gap is filled given the other cells of its row. A gap that a relation between columns
        determines is filled with its value. Cells that are present stay as they are, also
        unknown categories and unreadable numbers, and so do columns that the model does not see.

        Args:
            table: Path of a file, a frame of pandas, polars or pyarrow, a list of dictionaries, or
                an array `(N, C)`.
            draws: Number of imputations, each drawn from the distribution of the gaps. Default:
                one table with the most likely values.
            seed: Random seed of draws.

        Returns:
            The table without gaps in the columns that the model sees, or a list of `draws` tables.

        Raises:
            DataError: If the file is not a table, or lacks columns.
            ValueError: If the number of draws is not positive.
        """
        results = []
        for generator in imputation_generators(self, draws, seed):
            frames = table_frames(table, self.schema.names)
            blocks = [block.table for block in fill_frames(self, frames, generator)]
            results.append(pa.concat_tables(blocks, promote_options="default"))
        return results[0] if draws is None else results

    def certainty(self) -> dict[str, float]:
        """Return how well gaps of each column are filled, between 0 and 1.

        This is measured on held-out rows: the share of the variance of a number that is predicted,
        and the share of categories that are predicted right.
        """
        names = [column.name for column in self.schema.used]
        return dict(zip(names, self.detector.conditionals.certainty.tolist(), strict=True))

    def summarize(self, table: object, samples: Tensor) -> Summary:
        """Compare the model with its training table and with reference densities.

        Args:
            table: The training table, as for `fit`.
            samples: Codes of samples, shape `(S, C)`, from `sample_codes`.

        Returns:
            What the page of the model shows.
        """
        as_text = [c.name for c in self.schema.columns if isinstance(c, Categorical)]
        source = _read(table, as_text)
        codes = torch.from_numpy(training_rows(source.table, self.schema).codes)
        rows, folds = codes[:SUMMARY_ROWS], fold_of_rows(len(codes))[:SUMMARY_ROWS]
        inputs = self.imputation.nearest(self.encoder(rows.to(self.device)))
        comparison = compare_densities(
            self.ensemble.member_log_density(0),
            inputs[(folds != 0).to(self.device)],
            inputs[(folds == 0).to(self.device)],
            noise=SCORED_LEVELS[0],
            generator=_generator(self.training.seed, "references", self.device),
        )
        calibration = self.detector.calibration
        p_values, scores = calibration.held_out_p_values().cpu(), calibration.held_out_scores()
        most = max(MIN_EXPLAINED_ROWS, EXPLAINED_CELLS // rows.shape[1])
        by_score = scores.cpu()[: len(rows)].argsort(descending=True)[:most]
        unusual = by_score[p_values[by_score] < UNUSUAL_P]
        written = torch.from_numpy(as_written(self.schema, samples))
        return summarize(
            self.schema,
            rows,
            samples,
            self.score_codes(rows[:SUMMARY_SCORES], leave_one_out=True).score,
            scores.cpu(),
            p_values,
            training=self.training,
            comparison=comparison,
            sample_auc=classifier_auc(written, rows),
            record=self.file,
            reasons=explain(self, rows[unusual]),
            relations=self.relations.describe(self.schema),
        )

    def loss(self, codes: Tensor) -> float:
        """Return the mean objective of rows, with the same noise in every call.

        Args:
            codes: Codes of the rows, shape `(N, C)`. NaN in missing cells.

        Returns:
            The loss per row and dimension.
        """
        x = self.imputation.nearest(self.encoder(codes.to(self.device)))
        # The noise level grows with the position in a batch, so the rows are shuffled.
        order = torch.randperm(len(x), generator=_generator(0, "order"))
        repeated = order.repeat(-(-LOSS_ROWS // len(x)))
        generator = _generator(0, "loss", self.device)
        losses = [
            self.ensemble.losses(x[part].expand(FOLDS, -1, -1), generator)
            for part in repeated.split(LOSS_ROWS)  # type: ignore[no-untyped-call]
        ]
        return float(torch.cat(losses).mean())

    def save(self, folder: str | Path, summary: Summary | None = None) -> None:
        """Write the model to a new folder. It appears there as a whole or not at all.

        Args:
            folder: The folder. It must not exist, or be empty.
            summary: The summary of the model, for its page.

        Raises:
            FileExistsError: If it exists and is not empty.
        """
        folder = Path(folder)
        require_free(folder)
        create_folder(folder.parent)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            config: Json = {
                "format": FORMAT,
                "version": __version__,
                "schema": to_json(self.schema),
                "objective": to_json(self.ensemble.objective),
                "relations": to_json(self.relations),
                "file": to_json(self.file),
                "training": to_json(self.training),
                "log_partition": self.log_partition,
            }
            files = {"config.json": config}
            if summary is not None:
                files["summary.json"] = to_json(summary)
            for name, content in files.items():
                text = json.dumps(content, indent=2) + "\n"
                (draft / name).write_text(text, encoding="utf-8")
            checkpoint.save(draft / "model.safetensors", self._state())
            draft.chmod(0o777 & ~_umask())
            os.replace(draft, folder)  # an empty folder is replaced
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "cpu") -> Self:
        """Read a model. No code of the folder is executed.

        Args:
            folder: A folder that `save` has written.
            device: Device.

        Returns:
            The model.

        Raises:
            ModelError: If the folder does not hold a model, or it is damaged.
        """
        folder = Path(folder)
        if not folder.is_dir():
            problem = "is a file" if folder.exists() else "does not exist"
            raise ModelError(f"{folder} {problem}. Give a folder that `fdsm train` wrote")
        if not (folder / "config.json").exists():
            raise ModelError(f"{folder} has no model of a table: it lacks config.json")
        config = read_json(folder / "config.json", ModelError)
        if not isinstance(config, dict) or config.get("format") != FORMAT:
            written = config.get("version") if isinstance(config, dict) else None
            by = f"fdsm {written}" if isinstance(written, str) else "another program"
            raise ModelError(
                f"{folder} was written by {by}, and fdsm {__version__} cannot open it. Train the "
                "model again"
            )
        try:
            state = checkpoint.load(folder / "model.safetensors")
            model = cls._restore(config, state, device)
            model._use_once()
        except KeyError as error:
            raise ModelError(f"the model in {folder} is damaged: it lacks {error}") from error
        except Exception as error:  # an untrusted file can be wrong in any way
            problem = " ".join(str(error).split())  # torch lists problems in lines
            raise ModelError(f"the model in {folder} is damaged: {problem}") from error
        return model

    @cached_property
    def _exact(self) -> Ensemble:
        """The ensemble in float64, so that scores of a row do not depend on the other rows."""
        return Ensemble(deepcopy(self.ensemble.network).double(), self.ensemble.objective)

    def _state(self) -> dict[str, Any]:
        """Return all tensors by part and name."""
        return {
            "network": self.ensemble.network.state_dict(),
            "columns": {"mean": self.encoder.columns.mean, "scale": self.encoder.columns.scale},
            "tails": _tensors(self.encoder.tails),
            "imputation": _tensors(self.imputation),
            "detector": self.detector.state(),
        }

    @classmethod
    def _restore(cls, config: dict[str, Any], state: dict[str, Any], device: str) -> Self:
        types = {
            "schema": TableSchema,
            "objective": Objective,
            "relations": Relations,
            "file": FileRecord,
            "training": Training,
        }
        records = {name: from_json(config[name]) for name in types}
        for name, kind in types.items():
            if not has_type(records[name], kind):
                raise ValueError(f"its {name} is {quote(records[name])}")
        schema, objective, relations, file, training = records.values()
        encoder = Encoder(
            EncodeColumns(schema.num_levels, **state["columns"]), NormalizeTails(**state["tails"])
        )
        weights: dict[str, Tensor] = state["network"]
        members, _, width = weights["rows.weight"].shape
        if members != FOLDS:
            raise ValueError(f"it has {members} members instead of {FOLDS}")
        blocks = len({name.split(".")[1] for name in weights if name.startswith("blocks.")})
        with torch.device("meta"):  # a network that is larger than its file takes no memory
            network = NoiseConditionalEnsemble(encoder.dimension, FOLDS, width, blocks)
        network.load_state_dict(weights, assign=True)
        network.to(device, torch.float32).requires_grad_(requires_grad=False).eval()
        detector = {name: _on(device, part) for name, part in state["detector"].items()}
        pair = config["log_partition"]
        return cls(
            schema,
            encoder,
            Imputation(**_on(device, state["imputation"])),
            Ensemble(network, objective),
            OutlierDetector.restore(detector, _cell_view(schema, encoder)),
            relations,
            None if pair is None else (float(pair[0]), float(pair[1])),
            file,
            training,
        )

    def _use_once(self) -> None:
        """Score and correct rows, so that parts which do not fit together are noticed here."""
        codes = self.encoder.inverse(torch.zeros(2, self.encoder.dimension))
        self.schema.decode(codes.numpy())
        missing = torch.full_like(codes, torch.nan)
        scores = self.score_codes(torch.cat([codes, missing]))
        if not bool(scores.log_density[: len(codes)].isfinite().all()):
            raise ValueError("its log-density is not finite")
        self.imputation.nearest(self.encoder(missing.to(self.device)))
        self.detector.calibration.held_out_p_values()


LOSS_ROWS = 500
"""Number of rows of a batch of `TableModel.loss`. Fewer rows are repeated with other noise."""


def require_free(folder: Path) -> None:
    """Raise `FileExistsError` unless a folder is empty or does not exist."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file. Choose another folder")
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} exists and is not empty. Choose another folder")


def sample_count(iterations: int) -> int:
    """Return a number of samples that take less time than the training: one per two iterations.

    At least 250 are needed to compare them with the data, and more than 1,000 tell little more.
    """
    return min(max(iterations // 2, 250), 1000)


def _read(table: object, as_text: Sequence[str]) -> TableFile:
    if isinstance(table, TableFile):
        return table
    if isinstance(table, str | os.PathLike):
        return read_table(Path(table), as_text=as_text)
    return TableFile(frame_from(table), "the table", "", None)


def _cell_view(schema: TableSchema, encoder: Encoder) -> CellView:
    dates = [j for j, column in enumerate(schema.used) if isinstance(column, DateTime)]
    return CellView(encoder, tuple(dates))


def _broken(relations: Relations, codes: Tensor, *, leave_one_out: bool) -> Tensor:
    """Return the surprise of broken relations as a decimal logarithm, `(N, C) -> (N,)`."""
    return relations.surprise(codes.cpu(), leave_one_out=leave_one_out) / math.log(10)


def _calibrate(
    ensemble: Ensemble,
    conditionals: Conditionals,
    relations: Relations,
    codes: Tensor,
    inputs: Tensor,
    progress: Progress,
) -> OutlierDetector:
    """Return the detector of an ensemble, calibrated on the held-out rows of each fold."""
    # The rows are in random order, so the first ones are a random sample.
    count = min(len(codes), CALIBRATION_ROWS)
    values = inputs[:VALUE_ROWS].clone()
    # New rows usually have new dates.
    for j in conditionals.view.dates:
        values[:, conditionals.view.encoder.blocks[j]] = torch.nan
    return OutlierDetector.fit(
        ensemble.member_log_densities,
        conditionals,
        inputs[:count],
        fold_of_rows(len(codes))[:count].to(inputs.device),
        values,
        _broken(relations, codes[:count], leave_one_out=True),
        progress,
    )


def _draw(ensemble: Ensemble, n: int, generator: Generator, progress: Progress) -> Tensor:
    """Return samples of the ensemble, shape `(n, D)`."""
    device = next(ensemble.network.parameters()).device
    own = Generator(device).manual_seed(int(torch.randint(2**31, (), generator=generator)))
    sizes = [min(SAMPLE_BATCH, n - start) for start in range(0, n, SAMPLE_BATCH)]
    return torch.cat([ensemble.sample(size, own, progress) for size in sizes])


def _generator(seed: int, purpose: str, device: torch.device | str = "cpu") -> Generator:
    return Generator(device).manual_seed(derived_seed(seed, purpose))


def _tensors(part: Any) -> dict[str, Tensor]:  # ruff: ignore[any-type]
    return {field.name: getattr(part, field.name) for field in fields(part)}


def _on(device: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
