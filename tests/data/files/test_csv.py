"""Tables are read as they are written, or the first fault is named."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fdsm.data import Array, DataError, ImageArray, ImageFolder, Table, Whiten, own
from fdsm.data.files.csv import read_csv

from .. import file_cases
from ..conftest import Home

VALUES = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)


def text(values: np.ndarray, delimiter: str = ",", header: str = "") -> str:
    lines = [delimiter.join(f"{float(v):.9g}" for v in row) for row in values]
    return "\n".join(([header] if header else []) + lines) + "\n"


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_table_is_read_exactly(
    tmp_path: Path, delimiter: str, header: bool, encoding: str
) -> None:
    path = tmp_path / "a.csv"
    names = delimiter.join(['"a"', "b b", "c#"]) if header else ""
    path.write_text(text(VALUES, delimiter, names), encoding=encoding)
    rows = Table(path).rows()
    assert rows.dtype == torch.float32
    assert torch.equal(rows, torch.from_numpy(VALUES))
    chosen = ("c#", "a") if header else ("2", "0")
    assert torch.equal(Table(path, columns=chosen).rows(), torch.from_numpy(VALUES[:, [2, 0]]))


def test_a_table_is_split_and_standardised(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text(VALUES, header="a,b,c"))
    data = Table(path).load()
    assert data.record["rows"] == {"train": 32, "validation": 4, "test": 4}
    assert data.record["columns"] == ["a", "b", "c"]
    order = np.random.RandomState(0).permutation(40)
    assert torch.equal(data.train, torch.from_numpy(VALUES[order[:32]]))
    z = data.transform.deterministic(data.train).double()
    torch.testing.assert_close(z.mean(0), torch.zeros(3), atol=1e-6, rtol=0)
    torch.testing.assert_close(z.var(0, correction=0), torch.ones(3), atol=1e-5, rtol=0)
    white = Table(path, transform=Whiten()).load()
    z = white.transform.deterministic(white.train).double()
    torch.testing.assert_close(z.T @ z / 32, torch.eye(3), atol=1e-5, rtol=0)


def test_one_row_and_one_column_will_do_for_scoring(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("3.5")
    assert Table(path).rows().tolist() == [[3.5]]
    path.write_text("a\n1\n\n2\n")
    assert Table(path).rows().tolist() == [[1.0], [2.0]]


FAULTS = {
    "empty": ("", r"a\.csv is empty"),
    "header only": ("a,b\n", "has a header but no rows"),
    "word": ("a,b\n1,2\n3,x\n", "column 'b', row 2: 'x' is not a number. .*columns=", ),
    "missing": ("a,b\n1,2\n,4\n", "column 'a', row 2: '' is not a number"),
    "NA in front": ("1,NA,3\n1,2,3\n", "column '1', row 1: 'NA' is not a number"),
    "decimal comma": ("a;b\n1,5;2\n", "column 'a', row 1: '1,5' is not a number"),
    "ragged": ("a,b\n1,2\n1\n", "row 2: 1 cells instead of 2"),
    "nan": ("a,b\n1,2\n1,nan\n", "column 'b', row 2: nan is not a finite"),
    "infinite": ("a,b\n1,2\n-inf,2\n", "column 'a', row 2: -inf is not a finite"),
    "too large": ("a,b\n1,2\n1,1e39\n", r"column 'b', row 2: 1e\+39 is not a finite float32"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_the_first_fault_of_a_table_is_named(tmp_path: Path, name: str) -> None:
    content, message = FAULTS[name]
    path = tmp_path / "a.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        Table(path).rows()
    assert str(path) in str(caught.value)


def test_columns_with_words_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("name,x,y\nana,1,2\nbob,3,4\n")
    assert Table(path, columns=("x", "y")).rows().tolist() == [[1, 2], [3, 4]]
    with pytest.raises(DataError, match="has no column 'z': it has 'name', 'x', 'y'"):
        Table(path, columns=("z",)).rows()
    with pytest.raises(DataError, match="has no column to read"):
        Table(path, columns=()).rows()


def test_binary_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(DataError, match="not a text file in UTF-8"):
        Table(path).rows()


def test_columns_that_do_not_vary_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "".join(f"{i},7\n" for i in range(20)))
    with pytest.raises(DataError, match="column 'b': the same number in all rows"):
        Table(path).load()
    path.write_text("time,b\n" + "".join(f"{1_700_000_000 + i},{i}\n" for i in range(20)))
    with pytest.raises(DataError, match=r"column 'time': numbers near 1\.7e\+09 that vary by"):
        Table(path).load()


def test_too_few_rows_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text(VALUES[:9]))
    with pytest.raises(DataError, match="has 9 rows: at least 10 are needed"):
        Table(path).load()


def test_parquet_is_the_same_as_text(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    columns = {"x": VALUES[:, 0], "n": np.arange(40), "word": ["w"] * 40}
    parquet.write_table(pa.table(columns), path)
    rows = Table(path, columns=("n", "x")).rows()
    expected = np.stack([np.arange(40), VALUES[:, 0]], 1).astype(np.float32)
    assert torch.equal(rows, torch.from_numpy(expected))
    with pytest.raises(DataError, match="column 'word': string is not a number"):
        Table(path).rows()
    parquet.write_table(pa.table({"x": [1.0, None, 3.0]}), path)
    with pytest.raises(DataError, match="column 'x', row 2: nan is not"):
        Table(path).rows()
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match="not a readable parquet file"):
        Table(path).rows()


def test_arrays_are_read_exactly(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    np.savez(tmp_path / "one.npz", x=VALUES)
    np.savez_compressed(tmp_path / "two.npz", x=VALUES, y=VALUES[:3])
    for path, key in (("a.npy", None), ("one.npz", None), ("two.npz", "x")):
        assert torch.equal(Array(tmp_path / path, key).rows(), torch.from_numpy(VALUES))
    data = Array(tmp_path / "a.npy").load()
    assert data.record["rows"] == {"train": 32, "validation": 4, "test": 4}
    with pytest.raises(DataError, match=r"holds the arrays 'x', 'y': choose one with key=…,"):
        Array(tmp_path / "two.npz").rows()
    with pytest.raises(DataError, match="'x', 'y', not 'z': choose one with key=…"):
        Array(tmp_path / "two.npz", "z").rows()


def test_images_in_arrays_have_one_form(tmp_path: Path) -> None:
    path, levels = tmp_path / "a.npy", file_cases.random_bytes(20, 3, 8, 6)
    forms = {
        "bytes": levels,
        "integers": levels.astype(np.int64),
        "floats": levels / 255,
        "float32": (levels / 255).astype(np.float32),
    }
    for form in forms.values():
        np.save(path, form)
        rows = ImageArray(path).rows()
        assert rows.dtype == torch.uint8
        assert torch.equal(rows, torch.from_numpy(levels))
    np.save(path, levels[:, 0])
    assert torch.equal(ImageArray(path).rows(), torch.from_numpy(levels[:, :1]))
    assert ImageArray(path).load().record["rows"] == {"train": 16, "validation": 2, "test": 2}
    between = np.random.default_rng(0).uniform(size=(20, 4, 4))
    np.save(path, between)
    rows = ImageArray(path).rows()
    torch.testing.assert_close(
        rows[:, 0].double(), torch.from_numpy(255 * between), rtol=1e-6, atol=0
    )


def test_arrays_that_are_no_data_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"

    def refused(value: np.ndarray, message: str, source: type = Array) -> None:
        np.save(path, value, allow_pickle=True)
        with pytest.raises(DataError, match=message):
            source(path).load()

    refused(np.array([{}, "x"], object), "numbers and not as objects")
    refused(np.array(["a", "b"]), "holds <U1, not real numbers")
    refused(np.ones((20, 2)) + 1j, "holds complex128")
    refused(np.ones(20), r"shape \(20,\), but Array takes \(N, D\)")
    refused(np.full((20, 2), np.nan), "column '0', row 1: nan")
    refused(np.ones((20, 2)), "column '0': the same number")
    refused(np.ones((20, 2)), r"shape \(20, 2\), but images are", ImageArray)
    refused(np.ones((20, 8, 8, 3)), r"Channels come first: save x.transpose", ImageArray)
    refused(np.full((20, 8, 8), 1.5), "from 1.5 to 1.5, but images are", ImageArray)
    refused(np.full((20, 8, 8), -1), "int64 from -1 to -1", ImageArray)
    refused(np.full((20, 8, 8), np.nan), "from nan to nan", ImageArray)
    refused(np.ones((20, 8, 8), np.uint8), "save images of 0 and 1 as floating", ImageArray)
    refused(file_cases.random_bytes(9, 8, 8), "has 9 images: at least 10", ImageArray)


def test_damaged_arrays_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    np.savez(tmp_path / "a.npz", VALUES)
    for name in ("a.npy", "a.npz"):
        path = tmp_path / name
        whole = path.read_bytes()
        for content in (b"", b"<html>", whole[:-100], whole[:50]):
            path.write_bytes(content)
            with pytest.raises(DataError, match="cannot be read as a numpy array"):
                Array(path).rows()


def test_own_data_are_recognised(home: Home, tmp_path: Path) -> None:
    file_cases.write_images(tmp_path / "folder", 2)
    file_cases.write_zip(
        tmp_path / "a.zip", {"a.png": file_cases.encode_png(file_cases.random_bytes(8, 8))}
    )
    np.save(tmp_path / "numbers.npy", VALUES)
    np.save(tmp_path / "images.npy", file_cases.random_bytes(20, 8, 8))
    for name in ("a.csv", "a.TSV", "a.parquet"):
        (tmp_path / name).write_text("1,2")
    expected = {
        "folder": ImageFolder,
        "a.zip": ImageFolder,
        "numbers.npy": Array,
        "images.npy": ImageArray,
        "a.csv": Table,
        "a.TSV": Table,
        "a.parquet": Table,
    }
    for name, kind in expected.items():
        assert own(tmp_path / name) == kind(tmp_path / name)
    (tmp_path / "a.xlsx").write_text("")
    with pytest.raises(DataError, match=r"a\.xlsx is neither .*: convert it"):
        own(tmp_path / "a.xlsx")
    with pytest.raises(DataError, match="give the folder it is in"):
        own(tmp_path / "folder" / "00.png")
    with pytest.raises(DataError, match="there is no nothing"):
        own("nothing")


@pytest.mark.parametrize("columns", [None, ("a", "b")])
@pytest.mark.parametrize("row", ["5,6,7", "5"])
def test_rows_of_another_length_are_refused(
    row: str, columns: tuple[str, ...] | None, tmp_path: Path
) -> None:
    path = tmp_path / "ragged.csv"
    path.write_text(f"a,b\n1,2\n{row}\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"row 2: [13] cells instead of 2"):
        read_csv(path, columns)


def test_columns_of_the_same_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text("a,b,a\n1,2,3\n", encoding="utf-8")
    with pytest.raises(DataError, match="more than one column called 'a'"):
        read_csv(path)
    assert read_csv(path, ("b",)).values.tolist() == [[2]]
