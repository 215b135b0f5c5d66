"""Every function of fdsm that reads a file, and what the fuzzer changes in its files."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fdsm.tables import TableModel
from fdsm.tables.errors import problems_of
from fdsm.tables.frame import ArrivingLines, read_table
from fdsm.tables.report import write_page
from fdsm.tables.schema import TableSchema, training_rows
from fdsm.tables.scoring import score_file
from fdsm.tables.stream import score_stream
from fdsm.tables.summary import read_scores, read_summary
from fdsm.training import checkpoint
from fdsm.untrusted import InputError

from .archive_mutations import change_gzip, change_zip
from .binary_mutations import (
    change_idx,
    change_mat,
    change_npy,
    change_png,
    change_safetensors,
    change_state,
)
from .mutations import Mutation
from .text_mutations import change_cells, change_json, change_lines

ALLOWED: tuple[type[Exception], ...] = (InputError, OSError)
"""Errors that a reader may raise. The command line prints them in one line. `OSError` is for what
the system refuses, such as a file that must not be read, or must not be replaced."""

Read = Callable[[Path, Path], Iterable[str]]
"""Reads the files of a folder, one of which is changed. Returns what is shown to the user."""


@dataclass(frozen=True)
class Reader:
    """A reader, and the files that are changed for it.

    Attributes:
        name: Name in the list of findings.
        seeds: Subfolder of the seeds, which each case gets a copy of.
        files: Patterns of the files that are changed.
        read: The reader.
        structure: Changes of the structure of the files. Default: those of their suffix.
        names: What an error must contain besides the type. Default: the name of the file.
        share: Share of the cases that this reader gets, because it is slow.
    """

    name: str
    seeds: str
    files: tuple[str, ...]
    read: Read
    structure: tuple[Mutation, ...] = ()
    names: str = ""
    share: float = 1.0


STRUCTURE: dict[str, tuple[Mutation, ...]] = {
    ".csv": (change_cells,),
    ".tsv": (change_cells,),
    ".txt": (change_cells,),
    ".data": (change_cells,),
    ".gz": (change_gzip((change_cells, change_idx)),),
    ".npy": (change_npy,),
    ".npz": (change_zip((change_npy,)),),
    ".zip": (change_zip((change_png,)),),
    ".png": (change_png,),
    ".mat": (change_mat,),
    ".json": (change_json,),
    ".jsonl": (change_lines,),
    ".safetensors": (change_safetensors, change_state),
}


def _train(folder: Path, file: Path) -> Iterable[str]:
    """Read a table as `fdsm train` does, up to the training."""
    table = read_table(file)
    with problems_of(file):
        schema = TableSchema.infer(table.table)
        training_rows(table.table, schema)
    return []


def _train_keyed(folder: Path, file: Path) -> Iterable[str]:
    read_table(file, key="X")
    return []


@cache
def _trained(folder: Path) -> TableModel:
    return TableModel.load(folder / "model")


def _score(folder: Path, file: Path) -> Iterable[str]:
    """Score a changed table with a model that was trained on the unchanged one."""
    model = _trained(Path(os.environ["FUZZ_SEEDS"]) / "model")
    is_odd = file.suffix == ".csv" and file.stat().st_size % 2
    scored = score_file(model, file, folder / ("out.parquet" if is_odd else "out.csv"))
    return [str(scored.reasons), str(scored.problems)]


def _score_arriving(folder: Path, file: Path) -> Iterable[str]:
    """Score the rows of a changed table as they arrive."""
    model = _trained(Path(os.environ["FUZZ_SEEDS"]) / "model")
    with file.open("rb") as source:
        lines = ArrivingLines(source)
        blocks = [block.scored for block in score_stream(model, lines, alpha=0.05)]
    return [f"{scored.reasons} {scored.problems}" for scored in blocks]


def _replace_scores(folder: Path, file: Path) -> Iterable[str]:
    """Score a table whose file of scores was changed."""
    model = _trained(Path(os.environ["FUZZ_SEEDS"]) / "model")
    score_file(model, folder / "t.csv", file)
    return []


def _load_model(folder: Path, file: Path) -> Iterable[str]:
    """Open a model and use it, as `fdsm score` and `fdsm sample` do."""
    model = TableModel.load(folder / "model")
    score_file(model, folder / "t.csv", folder / "out.csv")
    model.sample(2)
    return []


def _load_checkpoint(folder: Path, file: Path) -> Iterable[str]:
    checkpoint.load(file)
    return []


def _read_report(folder: Path, file: Path) -> Iterable[str]:
    summary = read_summary(folder / "model" / "summary.json")
    read_scores(folder / "t.scores.csv", summary)
    return []


def _write_report(folder: Path, file: Path) -> Iterable[str]:
    summary = read_summary(folder / "model" / "summary.json")
    scored = read_scores(folder / "t.scores.csv", summary)
    write_page(folder / "report.html", summary, [scored], title="fuzz")
    return []


TABLES = ("t.csv", "t.tsv", "t.txt", "semicolon.data", "t.csv.gz")
JSON_TABLES = ("t.json", "t.jsonl", "t.ndjson.gz")
BINARY_TABLES = ("t.parquet", "t.feather", "plain.feather", "t.arrow")
REPORTED = ("model/summary.json", "t.scores.csv")

READERS: Sequence[Reader] = (
    Reader("text tables", "tables", TABLES, _train),
    Reader("JSON tables", "tables", JSON_TABLES, _train),
    Reader("binary tables", "tables", BINARY_TABLES, _train),
    Reader("arrays", "arrays", ("x.npy", "one.npz"), _train),
    Reader("arrays by key", "arrays", ("two.npz",), _train_keyed),
    Reader("scored tables", "tables", (*TABLES, *JSON_TABLES, "mixed.*"), _score),
    Reader("arriving rows", "tables", ("t.csv", "t.jsonl"), _score_arriving, names="standard"),
    Reader("existing scores", "model", ("t.scores.csv",), _replace_scores),
    Reader("checkpoints", "model", ("model/model.safetensors",), _load_checkpoint),
    Reader("settings of models", "model", ("model/config.json",), _load_model, names="model"),
    Reader("weights of models", "model", ("model/model.safetensors",), _load_model, names="model"),
    Reader("reports", "model", REPORTED, _read_report),
    Reader("report pages", "model", REPORTED, _write_report, share=0.05),
)
