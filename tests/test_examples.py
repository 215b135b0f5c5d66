"""The examples that need other packages give the results that they promise."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from fdsm.tables import TableModel

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.filterwarnings("default")  # Dask uses what pandas will remove
def test_partitions_that_dask_scores_have_the_scores_of_the_whole_table(tmp_path: Path) -> None:
    dask = pytest.importorskip("dask")
    pytest.importorskip("dask.dataframe")
    pytest.importorskip("dask.distributed")
    random = np.random.default_rng(0)
    TableModel.fit(random.normal(size=(200, 2)), iterations=50).save(tmp_path / "model")
    values = random.normal(size=(90, 2))
    values[40] = 9
    whole = pa.table({"0": values[:, 0], "1": values[:, 1], "kind": ["a", "b", "c"] * 30})
    (tmp_path / "table").mkdir()
    for i in range(3):
        parquet.write_table(whole.slice(30 * i, 30), tmp_path / "table" / f"{i}.parquet")
    example = runpy.run_path(str(EXAMPLES / "score_partitions.py"))
    model, table, out = (str(tmp_path / name) for name in ("model", "table", "out"))
    with dask.config.set(scheduler="synchronous"):
        limit = example["score_folder"](model, table, out, fdr=0.5)
    scored = parquet.read_table(out)
    expected = TableModel.load(model).score(whole, fdr=0.5)
    assert scored["kind"].to_pylist() == whole["kind"].to_pylist()
    np.testing.assert_allclose(scored["score"].to_numpy(), expected.score, rtol=1e-6)
    np.testing.assert_array_equal(scored["p_value"].to_numpy() <= limit, expected.flagged)
    assert expected.flagged[40]
    assert "expected about" in scored["reasons"][40].as_py()


def run_page(name: str) -> dict[str, Any]:
    """Run a page of the gallery. Return its names."""
    pytest.importorskip("matplotlib").use("agg")
    torch.set_default_dtype(torch.float32)
    return runpy.run_path(str(EXAMPLES / name), run_name="__main__")


@pytest.mark.nightly
def test_the_page_of_relations_finds_planted_errors() -> None:
    page = run_page("table_relations.py")
    assert page["model"].relations.describe(page["model"].schema) == [
        "month is the month of ordered",
        "country is determined by city",
        "days = delivered - ordered in days",
        "total = quantity * price",
    ]
    assert page["hits"] >= 30
    assert page["scored"].flagged[40:].sum() <= 10
    assert page["named"][True] >= 30
    assert page["exact"].all()
    assert all(page["right"])


@pytest.mark.nightly
def test_the_page_of_gaps_is_better_than_neighbors_and_knows_its_error() -> None:
    page = run_page("table_gaps.py")
    mean, knn, model = (
        np.square((page[name] - page["truth"])[page["gaps"]]).mean() ** 0.5
        for name in ("by_mean", "by_knn", "by_model")
    )
    assert model < knn < mean
    assert 0.85 < page["inside"].mean() < 0.95
    for expected, achieved in zip(page["certainty"].values(), page["achieved"], strict=False):
        assert achieved == pytest.approx(expected, abs=0.25)


@pytest.mark.nightly
def test_the_page_of_conditions_has_the_distribution_of_the_truth() -> None:
    page = run_page("table_conditions.py")
    samples, truth = page["samples"], page["truth"]
    assert set(samples["district"].to_pylist()) == {"harbor"}
    assert min(samples["rent"].to_pylist()) > 1500
    for name in ("size", "year", "rent"):
        # The mean of the 51 rows that satisfy the conditions has an error of 0.14 deviations.
        scale = truth[name].to_numpy().std()
        difference = samples[name].to_numpy().mean() - truth[name].to_numpy().mean()
        assert abs(difference) < 0.42 * scale


@pytest.mark.nightly
def test_the_page_of_the_probability_flow_is_normalized_and_close_to_the_truth() -> None:
    page = run_page("probability_flow.py")
    assert page["total"].item() == pytest.approx(1, abs=0.01)
    assert page["truth"].value < page["result"].nll.value < page["gaussian"].value
    assert page["result"].nll.value < page["truth"].value + 0.2
    assert page["result"].solver_error.max() < 0.05
    assert page["covered"] > 0.95


@pytest.mark.nightly
def test_the_page_of_mean_flow_samples_in_one_step() -> None:
    page = run_page("mean_flow.py")
    samples, test = page["samples"], page["test"]
    assert page["distance"](samples["flow matching", 1], test) > 0.5
    for key in [("flow matching", 100), ("mean flow", 1), ("mean flow", 100)]:
        assert page["distance"](samples[key], test) < 0.005
        assert page["stray"](samples[key]) < 0.1
    assert min(page["errors"]) > 10 * page["exact"], "in float32 Taylor mode is more accurate"


@pytest.mark.nightly
def test_the_page_of_digits_reads_samples_of_one_step() -> None:
    quality = run_page("mean_flow_digits.py")["quality"]
    read = {name: share for name, (share, _) in quality.items()}
    detected = {name: auc for name, (_, auc) in quality.items()}
    assert read["training digits"] > 0.9
    assert read["mean flow, 1 step"] > 0.5 > 0.35 > read["flow matching, 1 step"]
    assert read["flow matching, 50 steps"] > 0.6
    assert detected["flow matching, 50 steps"] < 0.97 < detected["flow matching, 1 step"]
    assert 0.4 < detected["training digits"] < 0.6


@pytest.mark.nightly
def test_the_page_of_dual_score_matching_has_the_log_density_at_all_levels() -> None:
    page = run_page("dual_score_matching.py")
    assert max(page["found"]["DSM"]) > 1
    for name in ("DualDSM", "DSM + 0.1 FokkerPlanck"):
        assert max(page["found"][name]) < 0.2
    assert page["left"] == pytest.approx(0.8, abs=0.03)
    for d, error in ((16, 1), (64, 6)):
        assert page["largest"][d, "DualDSM"] < min(error, page["largest"][d, "DSM"] / 2)


def test_the_service_finds_what_is_wrong_and_stops(capsys: pytest.CaptureFixture[str]) -> None:
    """The example itself compares the answer with the scores of the model."""
    example = runpy.run_path(str(EXAMPLES / "service.py"))
    ordinary, cool, valve, short, cut = example["scored"]
    assert ordinary["p_value"] > 0.05 < short["p_value"]
    assert (cool["flagged"], valve["flagged"]) == (True, True)
    assert cool["reasons"].startswith(("kind is pump", "temperature is 41"))
    assert valve["reasons"].startswith("kind: 'valve' does not occur in the training data")
    assert cut["problem"].startswith("line 5 is not JSON")
    assert "one request takes" in capsys.readouterr().out
    with pytest.raises(OSError, match="refused"):
        example["post"]("")
