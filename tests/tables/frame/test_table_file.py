"""Tests of Table."""

import hashlib
import json
import resource
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from paper.data import Chain, DataError, EncodeColumns, Noise, Standardize, Table, Whiten
from paper.data.tables import Categorical, Constant, DateTime, Identifier, Ignored, Numeric
from fdsm.serialize import from_json, to_json

VALUES = np.random.default_rng(0).normal(size=(40, 3))
FIXTURE = Path(__file__).parents[2] / "runs" / "fixtures" / "run-0.2.0"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.csv"
    np.savetxt(path, VALUES, delimiter=",", header="a,b,c", comments="", fmt="%.17g")
    return path


@pytest.fixture
def messy(tmp_path: Path) -> Path:
    """Write a table with a date, text, gaps, a constant and an identifier."""
    random = np.random.default_rng(1)
    lines = ["id;day;region;height;count;unit;note"]
    for i in range(60):
        height = "" if i % 7 == 0 else f"{random.normal():.3f}".replace(".", ",")
        region = "NA" if i == 5 else ("north", "south", "east")[i % 3]
        day = f"{1 + i % 28}.{1 + i % 12}.2024"
        lines.append(f"K{i:03};{day};{region};{height};{i % 4};kg;see {random.integers(40)}")
    path = tmp_path / "messy.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_table_is_split_and_standardized(path: Path) -> None:
    data = Table(path).load()
    assert data.record == {
        "name": "Table",
        "rows": {"train": 32, "validation": 4, "test": 4},
        "files": [{"file": "a.csv", "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}],
        "columns": ["a", "b", "c"],
        "dropped_rows": 0,
        "copies": 0,
        "equal_rows": 0,
    }
    order = np.random.RandomState(0).permutation(40)
    assert torch.equal(data.train, torch.from_numpy(VALUES[order[:32]]))
    assert torch.equal(data.test, torch.from_numpy(VALUES[order[36:]]))
    z = data.transform.deterministic(data.train).double()
    torch.testing.assert_close(z.mean(0), torch.zeros(3), atol=1e-6, rtol=0)
    torch.testing.assert_close(z.var(0, correction=0), torch.ones(3), atol=1e-5, rtol=0)


def test_columns_of_all_types_are_read(messy: Path) -> None:
    data = Table(messy).load()
    assert data.schema is not None
    kinds = [type(column) for column in data.schema.columns]
    assert kinds == [Identifier, DateTime, Categorical, Numeric, Numeric, Constant, Ignored]
    assert data.columns == ["day", "region", "height", "count"]
    assert isinstance(data.transform, EncodeColumns)
    assert data.transform.num_levels == data.schema.num_levels
    assert data.train[:, 2].isnan().any()
    assert data.shape == (1 + 3 + 1 + 1,)
    y = data.transform.deterministic(data.train)
    restored = data.schema.decode(data.inverse_transform(y).numpy())
    assert set(restored.column("day").to_pylist()) <= {
        f"{1 + i % 28:02}.{1 + i % 12:02}.2024" for i in range(60)
    }
    assert restored.column("unit").to_pylist() == ["kg"] * 48
    assert restored.column("id").null_count == restored.column("note").null_count == 48


def test_the_user_overrules_the_types(messy: Path) -> None:
    table = Table(messy, categorical=("count",), ignore=("note", "day"))
    schema = table.load().schema
    assert schema is not None
    assert isinstance(schema.columns[4], Categorical)
    assert [type(schema.columns[i]) for i in (1, 6)] == [Ignored, Ignored]
    chosen = Table(messy, columns=("height", "region")).load()
    assert chosen.columns == ["height", "region"]
    with pytest.raises(DataError, match=r"(?s)messy\.csv: the columns cannot.*no column 'hight'"):
        Table(messy, numeric=("hight",)).load()


def test_categories_keep_leading_zeros(tmp_path: Path) -> None:
    path, new = tmp_path / "a.csv", tmp_path / "new.csv"
    path.write_text("zip,kind,x\n" + "01067,007,1\n10115,x,2\n01067,x,4\n" * 10)
    table = Table(path, categorical=("zip",))
    schema = table.load().schema
    assert schema is not None
    assert [getattr(column, "levels", None) for column in schema.columns[:2]] == [
        ("01067", "10115"),
        ("x", "007"),
    ]
    new.write_text("x,zip,kind\n4,01067,007\n")
    codes, problems, frame = Table(new, schema=schema).read_codes()
    assert (codes.tolist(), problems) == ([[0.0, 1.0, 4.0]], {})
    assert schema.decode(codes).to_pylist() == [{"zip": "01067", "kind": "007", "x": 4}]
    assert frame.column("zip").to_pylist() == ["01067"]


def test_new_rows_are_read_with_the_schema(messy: Path, tmp_path: Path) -> None:
    schema = Table(messy).load().schema
    new = tmp_path / "new.csv"
    new.write_text(
        "unit,height,region,day,count,extra\n"
        "kg,1.5,south,3.2.2024,2,see 1\n"
        "lb,x,west,3.2.2024,NA,see 1\n"
        "kg,1.5\n"
    )
    codes, problems, frame = Table(new, schema=schema).read_codes()
    assert codes.shape == (3, 4)
    assert codes[0, [0, 2, 3]].tolist() == [1706918400.0, 1.5, 2.0]
    assert np.isnan(codes[1]).tolist() == [False, True, True, True]
    assert np.isnan(codes[2]).all()
    assert problems == {
        1: [
            ("region", "'west' does not occur in the training data"),
            ("height", "'x' is not a number"),
            ("unit", "'lb' differs from 'kg', the only value in training"),
        ],
        2: [("row", "has 2 cells instead of 6")],
    }
    assert frame.column("unit").to_pylist() == ["kg", "lb", None]
    blocks = list(Table(new, schema=schema).iter_codes(2))
    np.testing.assert_array_equal(np.concatenate([block[0] for block in blocks]), codes)
    assert [block[1] for block in blocks] == [{1: problems[1]}, {0: problems[2]}]
    with pytest.raises(ValueError, match="Table has no schema"):
        Table(new).read_codes()
    new.write_text("height,region\n1.5,south\n")
    with pytest.raises(
        DataError, match=r"(?s)new\.csv: the columns differ.*'day' is missing"
    ) as caught:
        Table(new, schema=schema).read_codes()
    assert "'count' is missing" in str(caught.value)


def test_a_recorded_schema_is_used_again(messy: Path) -> None:
    data = Table(messy).load()
    record = json.loads(json.dumps(to_json(Table(str(messy), schema=data.schema))))
    again = from_json(record)
    assert again == Table(str(messy), schema=data.schema)
    torch.testing.assert_close(again.load().train, data.train, rtol=0, atol=0, equal_nan=True)


def test_a_table_recorded_by_version_0_2_0_loads_the_same_rows() -> None:
    config = json.loads((FIXTURE / "config.json").read_text())
    table = from_json(config["recipe"]["data"] | {"path": str(FIXTURE / "data.csv")})
    assert isinstance(table.transform, Standardize)
    data = table.load()
    assert {key: data.record[key] for key in config["data"]} == config["data"]
    values = np.loadtxt(FIXTURE / "data.csv", delimiter=",", skiprows=1)
    order = np.random.RandomState(0).permutation(len(values))
    assert data.train.dtype == torch.float32
    assert torch.equal(data.train, torch.from_numpy(values[order[:32]]).float())


def test_a_table_of_numbers_can_be_whitened(path: Path, messy: Path) -> None:
    white = Table(path, transform=Whiten()).load()
    z = white.transform.deterministic(white.train).double()
    torch.testing.assert_close(z.T @ z / 32, torch.eye(3), atol=1e-5, rtol=0)
    with pytest.raises(DataError, match=r"Whiten\(\) needs numbers without missing") as caught:
        Table(messy, transform=Whiten()).load()
    assert str(caught.value).splitlines()[1:-1] == [
        "- column 'region' has 3 categories",
        "- column 'height' has 9 missing cells",
    ]


def test_a_chain_may_begin_with_the_columns(messy: Path) -> None:
    data = Table(messy, transform=Chain((EncodeColumns(), Noise(0.1)))).load()
    alone = Table(messy).load()
    assert data.shape == alone.shape
    torch.testing.assert_close(
        data.transform.deterministic(data.train),
        alone.transform.deterministic(alone.train),
        equal_nan=True,
    )


def test_the_file_is_read_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    original = Path.open
    monkeypatch.setattr(Path, "open", lambda p, *a, **k: opened.append(p) or original(p, *a, **k))
    Table(path).load()
    assert opened == [path]


def test_rows_without_any_cell_are_dropped_and_duplicates_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("k,a,b\n" + "1,,NA\n" * 3 + "1,2,x\n" * 10 + "1,,y\n" * 10)
    data = Table(path).load()
    assert data.record["dropped_rows"] == 3
    assert data.record["rows"] == {"train": 16, "validation": 2, "test": 2}


def test_too_few_rows_raise(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "1,2\n2,1\n" * 4 + ",\n" * 9)
    with pytest.raises(DataError, match=r"a\.csv: 8 different rows with values, but at"):
        Table(path).load()
    path.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"a\.csv: 1 rows, but at least 10 are needed"):
        Table(path).load()


def test_a_table_without_usable_columns_raises_with_the_reasons(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"id": range(20), "k": [1] * 20, "e": [None] * 20}), path)
    with pytest.raises(
        DataError,
        match=r"no column can be used: 1 constant \(k\), 1 empty \(e\), 1 ignored \(id: running",
    ) as caught:
        Table(path).load()
    assert caught.value.setting == "columns"


@pytest.mark.nightly
def test_ten_million_zeros_raise_without_using_much_memory(tmp_path: Path) -> None:
    path = tmp_path / "zeros.csv"
    path.write_bytes(b"a\n" + b"0\n" * 10**7)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match=r"no column can be used: 1 constant \(a\)"):
        Table(path).load()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 650_000  # kilobytes: 20 MB of text, 80 MB of integers, 80 MB of float64


def test_large_files_are_read_in_blocks(messy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows and the kinds of the columns are those of a small file."""
    whole = Table(messy).load()
    monkeypatch.setattr("fdsm.data.files.table.LARGE_FILE", 100)
    blocks = Table(messy).load()
    assert blocks.schema is not None
    assert whole.schema is not None
    assert blocks.schema.summary() == whole.schema.summary()
    torch.testing.assert_close(blocks.train, whole.train, rtol=0, atol=0, equal_nan=True)
    (file,) = blocks.record["files"]  # type: ignore[misc]
    assert file == {
        "file": "messy.csv",
        "sha256": hashlib.sha256(messy.read_bytes()).hexdigest(),
        "sampled_rows": 60,
    }


def test_large_files_are_sampled(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fdsm.data.files.table.LARGE_FILE", 100)
    monkeypatch.setattr("fdsm.data.files.table.MAX_ROWS", 30)
    data = Table(path).load()
    rows = torch.cat([data.train, data.validation, data.test])
    assert 10 <= len(rows) <= 30
    original = torch.from_numpy(VALUES)
    assert all((original == row).all(1).any() for row in rows)
    assert torch.equal(Table(path).load().train, data.train)


def test_parquet_files_of_many_cells_are_sampled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size of the file on the disk does not count: it is compressed."""
    numbers = np.random.default_rng(0).normal(size=100)
    parquet.write_table(pa.table({"a": numbers, "b": numbers}), tmp_path / "a.parquet")
    monkeypatch.setattr("fdsm.data.files.table.LARGE_FILE", 100)
    monkeypatch.setattr("fdsm.data.files.table.MAX_ROWS", 30)
    (file,) = Table(tmp_path / "a.parquet").load().record["files"]  # type: ignore[misc]
    assert "sampled_rows" not in file
    monkeypatch.setattr("fdsm.data.files.table.MAX_CELLS", 199)
    (file,) = Table(tmp_path / "a.parquet").load().record["files"]  # type: ignore[misc]
    assert 10 <= file["sampled_rows"] <= 30


def test_a_table_with_units_codes_and_gaps_is_read_in_blocks_too(tmp_path: Path) -> None:
    """Training, scoring in one piece and scoring in blocks give the same codes."""
    random = np.random.default_rng(0)
    zips = random.choice(["02139", "10001"], 60)
    lines = [
        f"{1000 * x:.2f} €;{x:.1f};{code};{x:.2f} kg"
        for x, code in zip(random.gamma(2, size=60), zips, strict=True)
    ]
    lines[3], lines[5] = "620.32 €;2;02139;5 lb", "620.32 €;none;02139;5kg"
    path = tmp_path / "shop.csv"
    content = "\n".join(["price;size;zip;weight", *lines]).replace(".", ",")
    path.write_bytes(content.encode("cp1252"))
    schema = Table(path).load().schema
    assert schema is not None
    assert schema.describe() == "3 numeric (price, size, weight), 1 categorical (zip)"
    codes, problems, _ = Table(path, schema=schema).read_codes()
    assert problems == {3: [("weight", "'5 lb' is not a number with the unit 'kg'")]}
    blocks = list(Table(path, schema=schema).iter_codes(7))
    np.testing.assert_array_equal(np.concatenate([block[0] for block in blocks]), codes)
    row = schema.decode(codes[5:6]).to_pylist()[0]
    assert row == {"price": "620.32 €", "size": None, "zip": "02139", "weight": "5.00 kg"}
