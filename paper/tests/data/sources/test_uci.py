"""Tests of the UCI tables: small files, and the real files if available."""

from pathlib import Path

import numpy as np
import pytest
import torch

from paper.data import DataError, Parkinsons, RedWine, Source, Standardize, WhiteWine
from paper.data.sources.uci import (
    NumericTable,
    dequantize_wine,
    parse_numbers,
    select_voice_columns,
)

from ..conftest import Home


def write_wine(path: Path, n: int = 200) -> np.ndarray:
    path.parent.mkdir(parents=True)
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=(n, 12)) @ rng.normal(size=(12, 12)), 1)
    header = ";".join(f'"c{i}"' for i in range(12))
    np.savetxt(path, x, delimiter=";", header=header, comments="", fmt="%.1f")
    return x


def test_correlated_columns_are_removed_one_by_one() -> None:
    a, b, noise = np.random.default_rng(0).normal(size=(3, 500))
    columns = [a, a, a, a, b, a + 0.01 * noise, -b + 0.01 * noise, noise, a + 0.001 * b]
    names = ("s", "age", "sex", "a", "b", "a2", "-b", "n", "a3")
    table = select_voice_columns(
        NumericTable(names, np.stack(columns, 1)), np.random.RandomState(0)
    )
    # The first pass is absolute and removes a. Later passes are signed, so b and -b remain.
    assert table.columns == ("b", "-b", "n", "a3")
    assert np.array_equal(table.values[:, 3], columns[8])


def test_a_table_with_other_cells_than_numbers_raises() -> None:
    path = Path("a.csv")
    table = parse_numbers(b'"a";"b"\n1.5;2\n3;4\n', path)
    assert table.columns == ("a", "b")
    assert table.values.tolist() == [[1.5, 2.0], [3.0, 4.0]]
    with pytest.raises(DataError, match=r"a\.csv has 2 cells that are not numbers"):
        parse_numbers(b"a;b\n1.5;x\n;4\n", path)


def test_wine_is_dequantized_within_the_median_gap() -> None:
    x = np.repeat(np.array([[0.0, 1.0, 2.0, 10.0]]).T, 2, 1)
    x = np.tile(np.concatenate([x[:, :1], x[:, 1:] / 4, x[:, :1]], 1), (5000, 1))
    table = dequantize_wine(NumericTable(("a", "b", "quality"), x), np.random.RandomState(0))
    assert table.columns == ("a", "b")
    noise = table.values - x[:, :2]
    for column, gap in ((0, 1.0), (1, 0.25)):
        assert 0.99 * gap < np.abs(noise[:, column]).max() <= gap
        assert noise[:, column].var() == pytest.approx(gap**2 / 3, rel=0.03)


def test_the_preparation_is_the_published_one(home: Home) -> None:
    x = write_wine(home.data / "uci" / "winequality-red.csv")
    data = RedWine().load()
    assert data.record["rows"] == {"train": 162, "validation": 18, "test": 20}

    random = np.random.RandomState(2019)
    shuffled = x.copy()
    random.shuffle(shuffled)
    shuffled = shuffled[:, :11]
    gaps = [np.median(np.diff(np.unique(column))) for column in shuffled.T]
    shuffled = shuffled + random.uniform(-1, 1, shuffled.shape) * gaps
    centered = shuffled - shuffled.mean(0)
    _, s, vt = np.linalg.svd(centered, full_matrices=False)
    white = centered @ (vt.T / s * np.sqrt(len(x)))
    noisy = white + 0.05 * random.standard_normal(white.shape)

    rows = torch.cat([data.train, data.validation, data.test])
    z = data.transform.deterministic(rows.double())
    sign = torch.sign((z * torch.from_numpy(white)).sum(0))
    # The sign of an axis is arbitrary, but the sign of the noise along it is not.
    noise = z - sign * torch.from_numpy(white)
    torch.testing.assert_close(noise, torch.from_numpy(noisy - white), atol=1e-4, rtol=0)


def test_without_noise_all_rows_are_exactly_white(home: Home) -> None:
    write_wine(home.data / "uci" / "winequality-white.csv")
    data = WhiteWine(noise=0.0).load()
    z = data.transform.deterministic(torch.cat([data.train, data.validation, data.test]).double())
    torch.testing.assert_close(z.mean(0), torch.zeros(11), atol=1e-5, rtol=0)
    torch.testing.assert_close(z.T @ z / len(z), torch.eye(11), atol=1e-4, rtol=0)
    plain = WhiteWine(noise=0.0, transform=Standardize()).load()
    assert torch.equal(plain.train, data.train)


def test_another_table_raises(home: Home) -> None:
    path = home.data / "uci" / "winequality-red.csv"
    path.parent.mkdir()
    path.write_text("a;b\n1;2\n")
    with pytest.raises(
        DataError, match=r"has 2 columns, expected 12\. Replace it with the official file"
    ):
        RedWine().load()
    path.write_text("")
    with pytest.raises(DataError, match="has 0 columns, expected 12"):
        RedWine().load()
    path.write_text("a;b\n1;x\n")
    with pytest.raises(DataError, match=f"has 1 cells that are not numbers. Delete {path}"):
        RedWine().load()


@pytest.mark.parametrize(
    ("source", "sizes", "dimension"),
    [
        (Parkinsons(), [4760, 528, 587], 15),
        (RedWine(), [1296, 144, 159], 11),
        (WhiteWine(), [3969, 440, 489], 11),
    ],
)
def test_the_real_tables_have_the_published_sizes(
    real: Path, source: Source, sizes: list[int], dimension: int
) -> None:
    data = source.load()
    splits = (data.train, data.validation, data.test)
    assert [len(rows) for rows in splits] == sizes
    assert data.shape == (dimension,)
    assert isinstance(files := data.record["files"], list)
    assert files[0]["official"]
    z = data.transform.deterministic(torch.cat(splits)).double()
    # The whitened rows have variance 1, and the noise adds 0.05².
    expected = (1 + 0.05**2) * torch.eye(dimension)
    torch.testing.assert_close(z.T @ z / len(z), expected, atol=0.01, rtol=0)


def test_parkinsons_has_the_published_columns(real: Path) -> None:
    columns = Parkinsons().load().record["columns"]
    assert isinstance(columns, list)
    assert len(columns) == 15
    removed = {"Jitter(%)", "Jitter:RAP", "Shimmer", "Shimmer:APQ3", "subject#", "age", "sex"}
    assert not removed & set(columns)


def test_the_noise_of_parkinsons_is_accurate_in_float32(real: Path) -> None:
    clean, noisy = Parkinsons(noise=0.0).load(), Parkinsons().load()
    difference = noisy.transform.deterministic(noisy.train) - clean.transform.deterministic(
        clean.train
    )
    torch.testing.assert_close(
        difference.double().std(0), torch.full((15,), 0.05), rtol=0.05, atol=0
    )
