"""Scoring files: rows are read like the training data, and bad rows are reported one by one."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from fdsm.data import Chain, DataError, Digits, Identity, ImageFolder, Table
from fdsm.objectives import SSMVR
from fdsm.recipes import VAE, Autoencoder
from fdsm.runs import RunError, SavedModel
from fdsm.runs.score import HEADER, default_scores_path, score_file

from ..recipes.recipe_cases import tiny
from .run_cases import StandardNormal, known_model, write_table


@pytest.fixture
def saved(tmp_path: Path) -> SavedModel:
    """The log-density -‖x‖²/2 of a table with the columns a and b."""
    source = Table(write_table(tmp_path / "train.csv"), transform=Identity())
    return known_model(tmp_path / "run", StandardNormal(), replace(tiny, data=source))


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_row_is_scored(saved: SavedModel, tmp_path: Path) -> None:
    new, out = tmp_path / "new.csv", tmp_path / "sub" / "scores.csv"
    new.write_text("a,b\n0,0\n1,1\n30,40\n")
    summary = score_file(saved, new, out)
    rows = read(out)
    assert tuple(rows[0]) == HEADER
    assert [row["row"] for row in rows] == ["1", "2", "3"]
    assert [float(row["log_density"]) for row in rows] == pytest.approx([0, -1, -1250])
    expected = saved.score(torch.tensor([[0.0, 0.0], [1.0, 1.0], [30.0, 40.0]]))
    assert [float(row["p_value"]) for row in rows] == pytest.approx(expected.p_value.tolist())
    assert [float(row["typicality"]) for row in rows] == pytest.approx(
        expected.typicality.tolist()
    )
    assert rows[2]["p_value"] == "0"
    assert summary == {
        "rows": 3,
        "not_scored": 0,
        "rows_with_p_value_below_1_percent": 1,
        "median_log_density": -1.0,
    }


def test_columns_are_found_by_name_in_any_order(saved: SavedModel, tmp_path: Path) -> None:
    new, out = tmp_path / "new.csv", tmp_path / "scores.csv"
    new.write_text("note,b,id,a\nx,0,7,2\ny,4,8,0\n")
    score_file(saved, new, out)
    assert [float(row["log_density"]) for row in read(out)] == pytest.approx([-2, -8])


def test_rows_with_bad_cells_are_not_scored_but_all_others_are(
    saved: SavedModel, tmp_path: Path
) -> None:
    new, out = tmp_path / "new.csv", tmp_path / "scores.csv"
    new.write_text("a,b\n1,1\n,2\n0,twelve\n2,0\n1,inf\n3\n0,4\n")
    summary = score_file(saved, new, out)
    assert (summary["rows"], summary["not_scored"]) == (7, 4)
    rows = read(out)
    scored = {row["row"]: float(row["log_density"]) for row in rows if row["log_density"]}
    assert scored == pytest.approx({"1": -1, "4": -2, "7": -8})
    for number, text in {1: "'a'", 2: "'twelve' is not a number", 4: "'inf'", 5: "1"}.items():
        assert text in rows[number]["problem"]
        assert rows[number]["log_density"] == rows[number]["p_value"] == ""
    assert all(rows[i]["problem"] == "" for i in (0, 3, 6))


def test_arrays_with_bad_rows_are_scored_too(saved: SavedModel, tmp_path: Path) -> None:
    new, out = tmp_path / "new.npy", tmp_path / "scores.csv"
    np.save(new, np.array([[1.0, 1.0], [np.nan, 0.0], [0.0, 2.0]]))
    summary = score_file(saved, new, out)
    assert summary["not_scored"] == 1
    assert [row["log_density"] != "" for row in read(out)] == [True, False, True]


def test_file_without_a_good_row_is_refused(saved: SavedModel, tmp_path: Path) -> None:
    new, out = tmp_path / "new.csv", tmp_path / "scores.csv"
    new.write_text("a,b\nx,1\n1,y\n")
    with pytest.raises(DataError, match=r"no row can be scored. Row 1: .*'x' is not a number"):
        score_file(saved, new, out)
    assert not out.exists()


def test_missing_columns_are_named(saved: SavedModel, tmp_path: Path) -> None:
    new = tmp_path / "new.csv"
    new.write_text("a,c\n1,2\n3,4\n")
    with pytest.raises(DataError, match=r"'b'"):
        score_file(saved, new, tmp_path / "scores.csv")


def test_rows_of_another_shape_are_refused(saved: SavedModel, tmp_path: Path) -> None:
    new = tmp_path / "wide.npy"
    np.save(new, np.zeros((4, 3)))
    with pytest.raises(DataError, match=r"has rows of shape \(3,\), but .* of shape \(2,\)"):
        score_file(saved, new, tmp_path / "scores.csv")


def test_integers_on_another_scale_are_refused(saved: SavedModel, tmp_path: Path) -> None:
    new = tmp_path / "levels.csv"
    new.write_text("a,b\n1,255\n")
    digits = replace(saved, is_integer=True, max_value=16.0)
    with pytest.raises(DataError, match=r"values up to 255, but .* integers up to 16"):
        score_file(digits, new, tmp_path / "scores.csv")


def test_files_that_are_not_scores_are_never_overwritten(
    saved: SavedModel, tmp_path: Path
) -> None:
    new, out = tmp_path / "new.csv", tmp_path / "scores.csv"
    new.write_text("a,b\n1,1\n")
    for content in ("my notes\n", "", "row,log_density\n1,2\n"):
        out.write_text(content)
        with pytest.raises(FileExistsError, match=f"{out} exists and does not hold scores"):
            score_file(saved, new, out)
        assert out.read_text() == content
    with pytest.raises(FileExistsError):
        score_file(saved, new, new)
    assert new.read_text() == "a,b\n1,1\n"
    out.unlink()
    score_file(saved, new, out)
    new.write_text("a,b\n0,2\n")
    score_file(saved, new, out)
    assert [float(row["log_density"]) for row in read(out)] == pytest.approx([-2])


def test_folder_in_the_place_of_the_scores_is_an_error(saved: SavedModel, tmp_path: Path) -> None:
    new, out = write_table(tmp_path / "new.csv"), tmp_path / "folder"
    out.mkdir()
    with pytest.raises(OSError, match="folder"):
        score_file(saved, new, out)


@pytest.mark.parametrize(
    ("data", "scores"),
    [
        ("a/new.csv", "a/new.scores.csv"),
        ("a/new.npy", "a/new.npy.scores.csv"),
        ("photos", "photos.scores.csv"),
        ("a/new.tar.csv", "a/new.tar.scores.csv"),
    ],
)
def test_default_path_is_beside_the_data(data: str, scores: str) -> None:
    assert default_scores_path(Path(data)) == Path(scores)


def test_images_are_named_and_resized_to_the_training_images(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for i in range(12):
        Image.new("L", (20, 20), 20 * i).save(photos / f"{i:02d}.png")
    source = ImageFolder(photos, size=4, transform=Identity())
    saved = known_model(tmp_path / "run", StandardNormal(), replace(tiny, data=source))
    score_file(saved, photos, tmp_path / "scores.csv")
    rows = read(tmp_path / "scores.csv")
    assert [row["row"] for row in rows] == [f"{i:02d}.png" for i in range(12)]
    expected = [-16 * (20 * i) ** 2 / 2 for i in range(12)]
    assert [float(row["log_density"]) for row in rows] == pytest.approx(expected)


def test_recipe_without_a_log_density_says_so(tmp_path: Path) -> None:
    recipe = Autoencoder("auto", SSMVR(), VAE, Digits(transform=Chain(())), latent=2, width=4)
    saved = known_model(tmp_path / "run", nn.Identity(), recipe)
    np.save(tmp_path / "new.npy", np.zeros((3, 8, 8), dtype=np.uint8))
    with pytest.raises(RunError, match=r"no log-density, so it cannot score rows"):
        score_file(saved, tmp_path / "new.npy", tmp_path / "scores.csv")
    assert not (tmp_path / "scores.csv").exists()
