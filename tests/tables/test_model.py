"""A model of a table: its density, its folder, and the tables that it takes."""

import json
import os
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet
from torch import Tensor

import fdsm
from fdsm.models import NoiseConditionalEnsemble
from fdsm.tables import ModelError, ScoredTable, TableModel, choose_objective, model
from fdsm.tables.ensemble import fold_of_rows
from fdsm.tables.explain import as_number
from fdsm.tables.imputation import Imputation
from fdsm.tables.report import write_page
from fdsm.tables.schema import Categorical, training_rows
from fdsm.tables.scoring import score_file
from fdsm.tables.summary import read_summary
from fdsm.training import IterationEvent, checkpoint

from .table_cases import mixed_rows, normal_model, write_mixed_table, write_rows, write_table

FILES = {"config.json", "model.safetensors"}


@pytest.fixture(autouse=True)
def _float32(_float64: None) -> None:
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> TableModel:
    torch.set_default_dtype(torch.float32)
    path = write_table(tmp_path_factory.mktemp("numbers") / "train.csv", 200, seed=1)
    return TableModel.fit(path, iterations=200)


@pytest.fixture(scope="module")
def folder(mixed: TableModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `mixed`. Do not change it."""
    path = tmp_path_factory.mktemp("saved") / "model"
    mixed.save(path)
    return path


def codes_of(trained: TableModel, path: Path) -> Tensor:
    """The training rows, in the order of the training."""
    frame = pa.csv.read_csv(path)
    return torch.from_numpy(training_rows(frame, trained.schema).codes)


def require_equal(a: ScoredTable, b: ScoredTable) -> None:
    for name in ("score", "p_value", "log_density", "flagged"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert (a.reasons, a.problems) == (b.reasons, b.problems)


def with_plain_numbers(scored: ScoredTable) -> ScoredTable:
    reasons = {
        i: [r._replace(value=str(as_number(r.value) or r.value)) for r in of_row]
        for i, of_row in scored.reasons.items()
    }
    return replace(scored, reasons=reasons)


# The density


def test_density_is_normalized_if_its_constant_is_known(numbers: TableModel) -> None:
    """The integral over a grid of the two columns is one."""
    assert numbers.is_normalized
    assert numbers.log_partition is not None
    assert numbers.encoder.tails.mapped.numel() == 0  # a smooth density
    value, error = numbers.log_partition
    assert 0 < error < 0.1
    axis = torch.linspace(-8, 8, 81).double()
    rows = torch.cartesian_prod(axis, axis)
    total = numbers.score_codes(rows).log_density.exp().sum() * 0.2**2
    assert total.item() == pytest.approx(1.0, abs=3 * error + 0.02)
    raw = replace(numbers, log_partition=None)
    difference = raw.score_codes(rows[:1]).log_density - numbers.score_codes(rows[:1]).log_density
    assert difference.item() == pytest.approx(value)


def test_density_of_categories_is_not_called_normalized(mixed: TableModel) -> None:
    assert any(mixed.schema.num_levels)
    assert not mixed.is_normalized


def test_log_density_is_the_mean_of_the_members_and_has_the_volume_of_the_encoder(
    numbers: TableModel,
) -> None:
    """At noise 0.1, of rows in the space of the data."""
    rows = torch.randn(20, 2, generator=torch.Generator().manual_seed(3)).double()
    x = numbers.encoder(rows)
    members = numbers.ensemble.member_log_densities(x.expand(4, -1, -1))
    assert numbers.log_partition is not None
    expected = members[0].mean(0) + numbers.encoder.log_det(rows) - numbers.log_partition[0]
    log_density = numbers.score_codes(rows).log_density
    torch.testing.assert_close(log_density, expected, rtol=1e-5, atol=1e-5)


def test_log_density_of_rows_with_missing_cells_is_the_mean_over_completions(
    numbers: TableModel,
) -> None:
    """Cells are filled from rows outside each fold, for the member of the fold."""
    rows = torch.tensor([[0.3, torch.nan], [torch.nan, 1.2]]).double()
    neighbors = numbers.detector.neighbors
    x = numbers.inputs(rows)
    values = []
    for k in range(4):
        donors = neighbors.rows[neighbors.folds != k]
        filled = Imputation.fit(donors).completions(x).float()
        values += [
            numbers.ensemble.member_log_densities(part.expand(4, -1, -1))[0, k] for part in filled
        ]
    assert numbers.log_partition is not None
    expected = torch.stack(values).mean(0) + numbers.encoder.log_det(rows)
    log_density = numbers.score_codes(rows).log_density + numbers.log_partition[0]
    torch.testing.assert_close(log_density, expected, rtol=1e-5, atol=1e-5)


def test_scores_are_float64_and_do_not_depend_on_the_other_rows(
    mixed: TableModel, mixed_table: Path
) -> None:
    rows = codes_of(mixed, mixed_table)[:30]
    together = mixed.score_codes(rows)
    assert {values.dtype for values in together} == {torch.float64}
    for i in range(0, 30, 7):
        alone = mixed.score_codes(rows[i : i + 1])
        for a, b in zip(alone, together, strict=True):
            assert a.item() == pytest.approx(b[i].item(), rel=1e-12)


def test_scores_do_not_depend_on_the_default_dtype(
    mixed: TableModel, folder: Path, mixed_table: Path
) -> None:
    """Otherwise the inputs of all categories would be new values."""
    expected, samples = mixed.score(mixed_table), mixed.sample(5)
    loss = mixed.loss(codes_of(mixed, mixed_table))
    torch.set_default_dtype(torch.float64)
    for trained in (mixed, TableModel.load(folder)):
        require_equal(trained.score(mixed_table), expected)
        assert trained.sample(5).equals(samples)
        assert trained.loss(codes_of(mixed, mixed_table)) == loss
    assert mixed.summarize(mixed_table, mixed.sample_codes(20)).train_rows == 200
    double = TableModel.fit(mixed_table, iterations=2)
    assert double.score(mixed_table, reasons=0).p_value.mean() == pytest.approx(0.5, abs=0.1)


def test_samples_and_filled_gaps_have_no_rounding_errors(tmp_path: Path) -> None:
    """A third of a degree has no fixed number of decimals. All other cells have one."""
    cells = [f"{i % 70 / 10 + 5}" for i in range(200)]
    cells[7], cells[9] = str(28 / 3), ""
    path = tmp_path / "alcohol.csv"
    path.write_text("alcohol,x\n" + "\n".join(f"{c},{i % 13}" for i, c in enumerate(cells)))
    trained = TableModel.fit(path, iterations=2)
    drawn = [x for x in trained.sample(100)["alcohol"].to_pylist() if x is not None]
    filled = float(trained.impute(path)["alcohol"][9].as_py())
    assert trained.schema.used[0].decimals is None  # type: ignore[union-attr]
    assert sum(x == round(x, 1) for x in drawn) >= 0.9 * len(drawn)
    assert filled == round(filled, 6)


# Calibration


def test_members_score_the_rows_that_they_have_not_seen(
    mixed: TableModel, mixed_table: Path
) -> None:
    """The first measure is minus the log-density at noise 0.1, by the member of the fold."""
    x = mixed.encoder(codes_of(mixed, mixed_table))
    folds = fold_of_rows(len(x))
    calibration = mixed.detector.calibration
    assert torch.equal(calibration.folds, folds)
    values = []
    for k in range(4):
        filled = Imputation.fit(x[folds != k]).completions(x[folds == k])
        members = [mixed.ensemble.member_log_densities(y.expand(4, -1, -1)) for y in filled]
        values.append(-torch.stack(members).mean(0)[:, k])
    medians = torch.cat(values, 1).double().median(1).values
    torch.testing.assert_close(calibration.center[:3], medians, rtol=1e-4, atol=1e-4)
    whole_row = [0.5 / 3] * 3 + [1.0, 0.4, 0.5, 0.0]
    assert calibration.weights[0].tolist() == pytest.approx(whole_row)
    assert calibration.weights[2].tolist() == pytest.approx([-1 / 3] * 3 + [0.0] * 4)


def test_all_rows_of_a_table_calibrate_the_p_values(mixed: TableModel, tmp_path: Path) -> None:
    """They are uniform on the held-out rows, and on new rows."""
    held_out = mixed.detector.calibration.held_out_p_values()
    assert len(held_out) == 200
    assert mixed.smallest_p_value == pytest.approx(1 / 201)
    p = mixed.score(write_mixed_table(tmp_path / "new.csv", 400, seed=8), reasons=0).p_value
    for level in (0.05, 0.25, 0.5):
        assert (held_out <= level).double().mean().item() == pytest.approx(level, abs=0.06)
        assert (p <= level).mean() == pytest.approx(level, abs=0.08)


def rare_categories(n: int, random: np.random.Generator) -> dict[str, Any]:
    """Return columns with heavy tails, and 1 row in 20 of 400 rare categories."""
    is_rare, x = random.random(n) < 0.05, random.normal(size=n)
    rare, common = random.integers(100, 500, n), random.integers(0, 12, n)
    return {
        "kind": np.where(is_rare, rare, common).astype(str),
        "x": x,
        "y": x + 0.3 * random.standard_t(2, size=n),
        "z": random.lognormal(size=n),
        "sign": np.where(x + random.normal(size=n) > 0, "yes", "no"),
    }


def test_p_values_of_mixed_tables_are_uniform_also_for_new_categories(
    quick_training: None,
) -> None:
    """About 4 % of new rows have a category that never occurred, as Good's formula predicts.

    If held-out rows with a category that occurs once were stranger than these, at most 1 % of the
    p-values would be below 0.05.
    """
    p_values, is_new, predicted = [], [], []
    for seed in range(2):
        random = np.random.default_rng(seed)
        fitted = TableModel.fit(rare_categories(500, random), categorical=["kind"], iterations=10)
        new = rare_categories(1200, random)
        kind = fitted.schema.used[0]
        assert isinstance(kind, Categorical)
        assert kind.merged == 0
        p_values.append(fitted.score(new, reasons=0).p_value)
        is_new.append(~np.isin(new["kind"], kind.levels))
        predicted.append(10 ** -fitted.problem_surprise("kind"))
    p, new_rows = np.concatenate(p_values), np.concatenate(is_new)
    assert new_rows.mean() == pytest.approx(np.mean(predicted), rel=0.4)
    for level, error in ((0.01, 0.006), (0.05, 0.02), (0.2, 0.05), (0.5, 0.06)):
        assert (p <= level).mean() == pytest.approx(level, abs=error)
    assert (p[new_rows] <= 0.05).mean() < 0.11


def test_score_is_minus_the_logarithm_of_the_tail_probability(tmp_path: Path) -> None:
    """A Gaussian in two dimensions has P(-log p ≥ r²/2 + c) = exp(-r²/2)."""
    known = normal_model(write_table(tmp_path / "train.csv", 2000))
    radius = torch.tensor([1.5, 2.0, 3.0, 6.0]).double()
    scores = known.score_codes(torch.stack([radius, torch.zeros(4).double()], 1))
    torch.testing.assert_close(scores.log_density, -radius.square() / 2)
    expected = radius.square() / 2 / np.log(10) + np.log10(0.98)
    torch.testing.assert_close(scores.score[:3], expected[:3], rtol=0.25, atol=0.15)
    assert scores.score[3] > np.log10(2001)
    assert scores.p_value[3].item() == pytest.approx(1 / 2001)


def test_training_rows_are_not_their_own_neighbors_if_asked(quick_training: None) -> None:
    """The rows repeat, so copies of them are normal unless they are these rows."""
    x = torch.randint(0, 7, (150, 2), generator=torch.Generator().manual_seed(0))
    trained = TableModel.fit({"a": x[:, 0].numpy(), "b": x[:, 1].numpy()}, iterations=5)
    rows = {"a": x[:, 0].numpy(), "b": x[:, 1].numpy()}
    known = trained.score(rows, reasons=0)
    left_out = trained.score(rows, reasons=0, leave_one_out=True)
    assert left_out.score.mean() > known.score.mean() + 0.08


def test_many_rows_are_sampled_for_training_but_not_for_relations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model, "TRAINING_ROWS", 100)
    a, b = np.random.default_rng(0).normal(size=(2, 400)).round(3)
    trained = TableModel.fit({"a": a, "b": b, "c": a + b}, iterations=5)
    assert trained.file.rows == 400
    assert len(trained.detector.calibration.folds) == 100
    assert trained.smallest_p_value == pytest.approx(1 / 101)
    assert [relation.checked for relation in trained.relations.relations] == [400]


# Loss


def test_loss_is_the_same_in_every_call_and_larger_for_other_data(numbers: TableModel) -> None:
    normal = torch.randn(300, 2, generator=torch.Generator().manual_seed(5)).double()
    assert numbers.loss(normal) == numbers.loss(normal)
    assert numbers.loss(normal[:1]) == pytest.approx(numbers.loss(normal[:1].expand(9, 2)), 0.15)
    assert numbers.loss(3 + normal) > numbers.loss(normal) + 0.02
    gaps = normal.clone()
    gaps[::4, 1] = torch.nan
    assert numbers.loss(gaps) == pytest.approx(numbers.loss(normal), rel=0.2)


# Samples


def test_samples_have_as_many_missing_cells_as_the_data(mixed: TableModel) -> None:
    """Every ninth cell of column b is missing in the data, and no other cell."""
    samples = mixed.sample(600)
    assert samples.column_names == ["id", "day", "kind", "unit", "a", "b", "c"]
    missing = {name: samples.column(name).null_count / 600 for name in samples.column_names}
    assert missing.pop("b") == pytest.approx(23 / 200, abs=0.04)
    assert missing.pop("id") == 1
    assert set(missing.values()) == {0.0}
    assert set(samples.column("unit").to_pylist()) == {"kg"}
    assert set(samples.column("kind").to_pylist()) <= {"up", "flat", "down"}


def test_many_samples_are_drawn_in_batches_and_repeatable(
    numbers: TableModel, quick_training: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "SAMPLE_BATCH", 40)
    loops: list[int] = []

    def progress(steps: Iterable[int]) -> Iterable[int]:
        loops.append(len(list(steps)))
        return steps

    first = numbers.sample_codes(100, seed=1, progress=progress)
    assert loops == [11] * 3
    assert first.shape == (100, 2)
    assert first.dtype == torch.float64
    assert torch.equal(first, numbers.sample_codes(100, seed=1))
    assert not torch.equal(first, numbers.sample_codes(100, seed=2))
    assert not torch.equal(first[:20], first[40:60])


# Tables


def test_all_kinds_of_tables_give_the_same_scores(mixed: TableModel, tmp_path: Path) -> None:
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rows = mixed_rows(40, seed=3)
    rows[4][5], rows[7][6], rows[9][2] = "", "9.5", "purple"
    path = write_rows(tmp_path / "new.csv", rows)
    frame = pa.csv.read_csv(path)
    parquet.write_table(frame, tmp_path / "new.parquet")
    expected = mixed.score(path)
    assert expected.flagged[7]
    assert expected.reasons[7][0].column == "c"
    assert expected.reasons[9][0].column == "kind"
    tables = [
        str(path), tmp_path / "new.parquet", frame, pl.read_csv(path), pd.read_csv(path),
        frame.to_pydict(), frame.select(frame.column_names[::-1]),
    ]  # fmt: skip
    for table in tables:  # other files have 0.5 where the text is 0.50
        require_equal(with_plain_numbers(mixed.score(table)), with_plain_numbers(expected))


def test_arrays_are_tables_whose_columns_have_numbers_as_names(
    tmp_path: Path, quick_training: None
) -> None:
    x = np.random.default_rng(0).normal(size=(100, 2))
    np.save(tmp_path / "x.npy", x)
    of_array, of_file = (TableModel.fit(t, iterations=5) for t in (x, tmp_path / "x.npy"))
    assert of_array.schema.names == of_file.schema.names == ("0", "1")
    new = [[0.0, 0.5], [9.0, 9.0]]
    require_equal(of_array.score(new), of_file.score(np.array(new)))
    assert [r.column for r in of_array.score(new).reasons[1]] == ["1", "0"]


def test_reasons_are_those_of_explain(mixed: TableModel) -> None:
    rows = mixed_rows(6, seed=3)
    rows[2][6], rows[4][3] = "8.0", "g"
    header = ("id", "day", "kind", "unit", "a", "b", "c")
    frame = {name: [row[i] for row in rows] for i, name in enumerate(header)}
    reasons = mixed.explain(frame)
    scored = mixed.score(frame)
    assert len(reasons) == 6
    assert set(scored.reasons) >= {2, 4}
    for i, expected in scored.reasons.items():  # shares of other batches differ in rounding
        for reason, same in zip(reasons[i], expected, strict=True):
            assert reason == same._replace(share=pytest.approx(same.share, rel=1e-9))
    (first,) = mixed.explain(frame, count=1)[2]
    assert first == reasons[2][0]
    assert mixed.score(frame, reasons=0).reasons == {}


def test_columns_may_be_chosen(tmp_path: Path, quick_training: None) -> None:
    """Numbers that are categories keep their zeros, also in the summary."""
    lines = [f"{i % 3:03d},{i},{(i * 37) % 11 / 7:.3f}" for i in range(60)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["zip,number,x", *lines]) + "\n")
    trained = TableModel.fit(path, categorical=["zip"], numeric=["number"], iterations=3)
    kinds = {name: kind for name, kind, *_ in trained.schema.summary()}
    assert kinds == {"zip": "Categorical", "number": "Numeric", "x": "Numeric"}
    assert set(trained.sample(50).column("zip").to_pylist()) <= {"000", "001", "002"}
    summary = trained.summarize(path, trained.sample_codes(20))
    (histogram,) = (h for h in summary.histograms if h.column == "zip")
    assert histogram.data.missing == 0
    assert histogram.data.total == 60
    ignored = TableModel.fit(path, ignore=["zip", "number"], iterations=3)
    assert [column.name for column in ignored.schema.used] == ["x"]


def test_the_record_of_a_model_says_how_it_was_trained(numbers: TableModel) -> None:
    training, file = numbers.training, numbers.file
    assert training.iterations == training.validation_losses[-1][0] <= 200
    assert training.objective == "denoising score matching"
    assert training.fdsm_version == fdsm.__version__
    assert training.parameters == sum(p.numel() for p in numbers.ensemble.network.parameters())
    assert (Path(file.name).name, file.rows, len(file.sha256)) == ("train.csv", 200, 64)


# Work


def test_each_log_density_is_computed_once(
    mixed: TableModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At three noise levels. Four of the five columns of an unusual row are replaced once."""
    rows = mixed_rows(30, seed=3)
    path = write_rows(tmp_path / "new.csv", rows)
    evaluated: list[int] = []
    forward = NoiseConditionalEnsemble.forward

    def counted(self: NoiseConditionalEnsemble, x: Tensor, sigma: Tensor) -> Tensor:
        evaluated.append(x.shape[1])
        return forward(self, x, sigma)

    monkeypatch.setattr(NoiseConditionalEnsemble, "forward", counted)
    mixed.score(path, reasons=0)
    assert sum(evaluated) == 3 * 30
    rows[5][5] = ""
    evaluated.clear()
    mixed.score(write_rows(path, rows), reasons=0)
    assert sum(evaluated) == 3 * (29 + 5)  # five completions
    evaluated.clear()
    scored = score_file(mixed, path, tmp_path / "scores.csv")
    explained = int((scored.p_value <= 0.1).sum())
    assert 0 < explained < 10
    assert sum(evaluated) == 3 * (29 + 5 + explained * (1 + 4))


@pytest.mark.parametrize(("kept", "reads"), [(True, 1), (False, 2)])
def test_a_file_is_read_once_or_twice(
    kept: bool, reads: int, mixed: TableModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice if it is too large to keep it in memory until the scores are written."""
    path = write_mixed_table(tmp_path / "new.csv", 30, seed=3)
    if not kept:
        monkeypatch.setattr("fdsm.tables.scoring.KEPT_BYTES", 100)
    opened: list[Path] = []
    open_ = Path.open

    def counted(self: Path, *arguments: str, **options: str) -> object:
        opened.append(self)
        return open_(self, *arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", counted)
    score_file(mixed, path, tmp_path / "scores.csv")
    assert opened.count(path) == reads
    opened.clear()
    mixed.score(path)
    assert opened == [path]


def test_scoring_writes_nothing_into_the_folder_of_the_model(
    folder: Path, tmp_path: Path, mixed_table: Path
) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "model"))
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    trained = TableModel.load(copy)
    score_file(trained, mixed_table, tmp_path / "scores.csv")
    trained.sample(3)
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before
    assert set(before) == FILES


# Folders


def test_loaded_model_is_identical(mixed: TableModel, folder: Path, mixed_table: Path) -> None:
    loaded = TableModel.load(folder)
    require_equal(loaded.score(mixed_table), mixed.score(mixed_table))
    assert loaded.explain(mixed_table) == mixed.explain(mixed_table)
    assert loaded.sample(5, seed=3).equals(mixed.sample(5, seed=3))
    rows = codes_of(mixed, mixed_table)
    assert loaded.loss(rows) == mixed.loss(rows)
    for name in ("schema", "log_partition", "file", "training"):
        assert getattr(loaded, name) == getattr(mixed, name)
    assert loaded.ensemble.objective == mixed.ensemble.objective
    assert {path.name for path in folder.iterdir()} == FILES


def test_normalizing_constant_and_summary_are_saved(
    numbers: TableModel, tmp_path: Path, quick_training: None
) -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    frame = {"a": x[:, 0], "b": x[:, 1]}
    summary = numbers.summarize(frame, numbers.sample_codes(30))
    numbers.save(tmp_path / "deep" / "model", summary)
    assert TableModel.load(tmp_path / "deep" / "model").log_partition == numbers.log_partition
    assert read_summary(tmp_path / "deep" / "model" / "summary.json") == summary
    assert summary.samples == 30


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_folder_has_the_permissions_of_other_folders(
    umask: int, mixed: TableModel, tmp_path: Path
) -> None:
    before = os.umask(umask)
    try:
        mixed.save(tmp_path / "model")
    finally:
        os.umask(before)
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o777 & ~umask


def test_only_empty_folders_are_replaced(mixed: TableModel, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    for message in ("full exists and is not empty", "file is a file"):
        name = message.split()[0]
        with pytest.raises(FileExistsError, match=rf"{message}\. Choose"):
            mixed.save(tmp_path / name)
    assert {path.name for path in tmp_path.iterdir()} == {"full", "file", "empty"}
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["notes.txt"]
    mixed.save(tmp_path / "empty")
    assert {path.name for path in (tmp_path / "empty").iterdir()} == FILES
    with pytest.raises(FileExistsError):
        mixed.save(tmp_path / "empty")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_an_interrupted_save_leaves_nothing_behind(
    error: BaseException, mixed: TableModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, state: object) -> None:
        path.write_bytes(b"half")
        raise error

    monkeypatch.setattr(checkpoint, "save", fail)
    with pytest.raises(type(error)):
        mixed.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_training_leaves_nothing_behind(
    mixed_table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def interrupt(event: IterationEvent) -> None:
        if event.iteration == 2:
            raise KeyboardInterrupt

    threads, state = torch.get_num_threads(), torch.get_rng_state()
    with pytest.raises(KeyboardInterrupt):
        TableModel.fit(mixed_table, iterations=5, progress=interrupt)
    assert list(tmp_path.iterdir()) == []
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


def test_folders_without_a_model_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("mine")
    problems = {
        "missing": r"missing does not exist\. Give a folder",
        "file": r"file is a file\. Give a folder",
        "empty": "empty has no model of a table: it lacks config",
    }
    for name, message in problems.items():
        with pytest.raises(ModelError, match=message):
            TableModel.load(tmp_path / name)


def test_models_and_scores_are_shown_without_rows(mixed: TableModel, mixed_table: Path) -> None:
    assert repr(mixed) == f"TableModel({mixed.file.rows:,} rows, {mixed.schema.describe()})"
    scored = mixed.score(mixed_table, reasons=0)
    count, flagged = len(scored.score), scored.flagged.sum()
    assert repr(scored) == f"ScoredTable({count:,} rows, {flagged:,} flagged)"


@pytest.mark.parametrize(
    ("config", "by"),
    [
        ({"format": 2, "version": "0.2.0"}, "fdsm 0.2.0"),
        ({"format": "fdsm table 9", "version": "9.1"}, r"fdsm 9\.1"),
        ({"format": "fdsm table 9"}, "another program"),
        ({"name": "package"}, "another program"),
        ([1, 2], "another program"),
    ],
)
def test_folders_of_other_versions_and_programs_are_refused(
    config: object, by: str, folder: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "model"))
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=f"was written by {by}, and fdsm .* cannot open it"):
        TableModel.load(copy)


def require_damaged(copy: Path, message: str) -> None:
    with pytest.raises(ModelError, match=message) as error:
        TableModel.load(copy)
    assert "\n" not in str(error.value)
    assert str(copy) in str(error.value)


@pytest.mark.parametrize("text", ["", "{", "[" * 10_000, '{"format": NaN}', "\x00"])
def test_config_that_is_not_json_is_refused(text: str, folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "model"))
    (copy / "config.json").write_text(text)
    require_damaged(copy, "config.json|another program")


@pytest.mark.parametrize("size", [0, 10, 300, -1])
def test_damaged_tensors_are_refused(size: int, folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "model"))
    content = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(content[:size])
    require_damaged(copy, "is damaged: .*model.safetensors")
    changed = bytearray(content)
    changed[-5] ^= 1
    (copy / "model.safetensors").write_bytes(changed)
    require_damaged(copy, "is damaged: .*does not match its digest")
    (copy / "model.safetensors").unlink()
    require_damaged(copy, "is damaged: .*model.safetensors")


def change_state(copy: Path, change: Callable[[dict[str, Any]], None]) -> None:
    state = checkpoint.load(copy / "model.safetensors")
    change(state)
    checkpoint.save(copy / "model.safetensors", state)


@pytest.mark.parametrize(
    ("part", "name", "change"),
    [
        ("imputation", "rows", lambda rows: rows[:, :1]),
        ("columns", "mean", lambda mean: mean[:2]),
        ("tails", "slopes", lambda slopes: slopes[:, :1]),
        ("network", "rows.weight", lambda weight: weight[:2]),
        ("network", "rows.weight", lambda weight: weight[:, :1]),
    ],
)
def test_parts_that_do_not_fit_are_noticed_when_the_model_is_read(
    part: str, name: str, change: Callable[[Tensor], Tensor], folder: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "model"))
    change_state(copy, lambda state: state[part].update({name: change(state[part][name])}))
    require_damaged(copy, "the model in .* is damaged: ")


@pytest.mark.parametrize(
    ("part", "name", "change"),
    [
        ("known_values", "surprises", lambda _: torch.ones(3)),
        ("known_values", "ends", lambda _: torch.tensor([10**6])),
        ("neighbors", "rows", lambda rows: rows[:, :1]),
        ("neighbors", "folds", torch.zeros_like),
        ("calibration", "weights", lambda weights: weights[:, :2]),
        ("calibration", "held_out", lambda held_out: held_out[:, :0]),
        ("conditionals", "rows", lambda rows: rows[:, :1]),
        ("conditionals", "left", lambda left: (left + 1) % len(left)),  # a circle
        ("conditionals", "feature", lambda feature: feature + 100),
        ("conditionals", "roots", lambda roots: roots + 10**6),
        ("cell_tails", "values", lambda values: values[:3]),
    ],
)
def test_parts_of_the_detector_that_do_not_fit_are_noticed(
    part: str, name: str, change: Callable[[Tensor], Tensor], folder: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "model"))

    def edit(state: dict[str, Any]) -> None:
        state["detector"][part][name] = change(state["detector"][part][name])

    change_state(copy, edit)
    require_damaged(copy, "the model in .* is damaged: ")


@pytest.mark.parametrize("part", ["network", "columns", "tails", "imputation", "detector"])
def test_missing_parts_are_named(part: str, folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "model"))
    change_state(copy, lambda state: state.pop(part))
    require_damaged(copy, f"is damaged: it lacks '{part}'")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("schema", {"class": "os.system"}, "os.system is not part of this package"),
        ("objective", {"class": "builtins.exec"}, "builtins.exec is not part of this package"),
        ("objective", {"import": "os.getcwd"}, "os.getcwd is not part of this package"),
        ("objective", {"class": "fdsm.serialize.from_json"}, "is not a class of settings"),
        ("objective", 3, "its objective is 3"),
        ("schema", {"class": "fdsm.objectives.SSM"}, r"its schema is SSM"),
        ("file", {"class": "fdsm.objectives.SSM"}, r"its file is SSM"),
        ("training", None, "its training is None"),
        ("log_partition", [1.0], "is damaged"),
        ("log_partition", "ab", "is damaged"),
    ],
)
def test_configs_with_other_classes_are_refused_and_nothing_is_executed(
    name: str, value: object, message: str, folder: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "model"))
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {name: value}))
    require_damaged(copy, message)
    del config[name]
    (copy / "config.json").write_text(json.dumps(config))
    require_damaged(copy, f"it lacks '{name}'")


# Objectives and seeds


@pytest.mark.parametrize("derivative", ["taylor", "fd", "autodiff"])
@pytest.mark.parametrize("name", ["ssm", "sm"])
def test_other_objectives_keep_scores_reasons_and_samples(
    name: Literal["ssm", "sm"],
    derivative: Literal["taylor", "fd", "autodiff"],
    tmp_path: Path,
    quick_training: None,
) -> None:
    path = write_mixed_table(tmp_path / "t.csv", 60)
    objective = choose_objective(name, derivative)
    trained = TableModel.fit(path, objective=objective, iterations=4, ignore=["day", "kind"])
    trained.save(tmp_path / "model")
    loaded = TableModel.load(tmp_path / "model")
    assert loaded.ensemble.objective == objective
    rows = mixed_rows(20, seed=1)
    rows[3][6] = "30"
    scored = loaded.score(write_rows(tmp_path / "new.csv", rows))
    require_equal(scored, trained.score(tmp_path / "new.csv"))
    assert scored.score.argmax() == 3
    assert scored.reasons[3][0].column == "c"
    assert scored.p_value[3] == pytest.approx(1 / 61)
    assert (scored.p_value <= 0.2).mean() < 0.6
    assert loaded.sample(20).equals(trained.sample(20))


def test_summary_and_page_name_the_objective(tmp_path: Path, quick_training: None) -> None:
    path = write_table(tmp_path / "t.csv", 40)
    trained = TableModel.fit(path, objective=choose_objective("ssm"), iterations=2)
    summary = trained.summarize(path, trained.sample_codes(20))
    expected = "sliced score matching, derivatives with Taylor"
    assert summary.training.objective == expected
    page = write_page(tmp_path / "page.html", summary, title="Model")
    assert expected in page.read_text(encoding="utf-8")


def test_a_seed_gives_the_same_model_also_in_threads(
    mixed_table: Path, quick_training: None
) -> None:
    new = mixed_rows(5, seed=3)
    frame = {name: [row[i] for row in new] for i, name in enumerate(("id", "day", "kind"))}
    frame |= {name: [row[i + 3] for row in new] for i, name in enumerate(("unit", "a", "b", "c"))}

    def fit(seed: int) -> TableModel:
        torch.set_num_threads(1)
        return TableModel.fit(mixed_table, iterations=3, seed=seed)

    with ThreadPoolExecutor(2) as pool:
        first, other = pool.map(fit, (7, 8))
    again = fit(7)
    require_equal(first.score(frame), again.score(frame))
    assert first.sample(4).equals(again.sample(4))
    assert (first.score(frame).score != other.score(frame).score).any()


def test_training_needs_an_iteration(mixed_table: Path) -> None:
    with pytest.raises(ValueError, match="iterations must be at least 1, but is 0"):
        TableModel.fit(mixed_table, iterations=0)
