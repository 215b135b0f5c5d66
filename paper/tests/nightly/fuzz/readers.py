"""Every function of fdsm that reads a file, and what the fuzzer changes in its files."""

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from fdsm.serialize import RecordError
from fdsm.tables.scoring import score_file
from fdsm.training import checkpoint
from fdsm.training.checkpoint import CheckpointError
from paper.data import (
    CIFAR10,
    MNIST,
    SVHN,
    CelebA,
    DataError,
    ImageFolder,
    RedWine,
    Table,
    from_path,
)
from paper.recipes.settings import SettingError, change_settings
from paper.runs import Run, RunError, SavedModel

from .archive_mutations import change_gzip, change_tar, change_zip
from .binary_mutations import (
    change_idx,
    change_mat,
    change_npy,
    change_pickle,
    change_png,
    change_safetensors,
    change_state,
)
from .mutations import Mutation
from .text_mutations import change_cells, change_json, change_lines

ALLOWED: tuple[type[Exception], ...] = (
    DataError, RunError, CheckpointError, SettingError, RecordError, OSError,
)  # fmt: skip
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


def _load(folder: Path, file: Path) -> Iterable[str]:
    from_path(file).load()
    return []


def _load_keyed(folder: Path, file: Path) -> Iterable[str]:
    from_path(file, "X").load()
    return []


def _load_folder(folder: Path, file: Path) -> Iterable[str]:
    ImageFolder(folder / "photos", size=8).load()
    return []


def _in_data_folder(source: Callable[[Path, Path], object]) -> Read:
    def read(folder: Path, file: Path) -> Iterable[str]:
        os.environ["FDSM_DATA"] = str(folder)
        source(folder, file)
        return []

    return read


@cache
def _trained(folder: Path) -> SavedModel:
    return SavedModel.load(Run.open(folder / "run"))


def _score(folder: Path, file: Path) -> Iterable[str]:
    """Score a changed table with a model that was trained on the unchanged one."""
    seeds = Path(os.environ["FUZZ_SEEDS"]) / "run"
    for name in ("config.json", "table.json"):  # a summary is written beside them
        (folder / "run").mkdir(exist_ok=True)
        shutil.copy(seeds / "run" / name, folder / "run")
    saved = _trained(seeds)
    saved = replace(saved, run=replace(saved.run, folder=folder / "run"))
    out = folder / (
        "out.parquet" if file.suffix == ".csv" and file.stat().st_size % 2 else "out.csv"
    )
    summary = score_file(saved, file, out)
    return [str(summary)]


def _open_run(folder: Path, file: Path) -> Iterable[str]:
    run = Run.open(folder / "run")
    return [run.name]


def _load_model(folder: Path, file: Path) -> Iterable[str]:
    """Open a run and use its model, as `fdsm sample` and `fdsm score` do."""
    saved = SavedModel.load(Run.open(folder / "run"))
    data = Table(Path(os.environ["FUZZ_SEEDS"]) / "run" / "t.csv").load()
    saved.score(data.train[:3])
    return []


def _score_with_run(folder: Path, file: Path) -> Iterable[str]:
    """Score a table with a run of which one file was changed."""
    saved = SavedModel.load(Run.open(folder / "run"))
    score_file(saved, folder / "t.csv", folder / "t.scores.csv")
    return []


def _evaluate_sentences(folder: Path, file: Path) -> Iterable[str]:
    from fdsm.cli.evaluate import _best_iteration, warn_of_problems

    run = Run.open(folder / "run")
    warn_of_problems(run)
    _best_iteration(run)
    return []


def _load_checkpoint(folder: Path, file: Path) -> Iterable[str]:
    checkpoint.load(file)
    return []


def _read_report(folder: Path, file: Path) -> Iterable[str]:
    """Return the notes of a report, and what is shown in the terminal."""
    from rich.console import Console

    from paper.report import read_folders, terminal

    collection = read_folders([folder])
    with open(os.devnull, "w", encoding="utf-8") as null:
        console = Console(file=null, record=True, width=200)
        console.print(terminal(collection))
    return [*collection.notes, console.export_text()]


def _write_report(folder: Path, file: Path) -> Iterable[str]:
    from paper.report import read_folders, write_page

    write_page(read_folders([folder]), folder / "report.html", title="fuzz")
    return []


def _settings(folder: Path, file: Path) -> Iterable[str]:
    """Change settings of a recipe as `--set` does. Each line of the file is a setting."""
    run = _trained(Path(os.environ["FUZZ_SEEDS"]) / "run").run
    lines = file.read_bytes().decode("utf-8", "replace").split("\n")
    change_settings(run.recipe, [line for line in lines if line])
    return []


TABLES = ("t.csv", "t.tsv", "t.txt", "semicolon.data", "t.csv.gz")
BINARY_TABLES = ("t.parquet", "t.feather", "plain.feather", "t.arrow")
REPORTED = tuple(f"run/{name}" for name in (
    "config.json", "metrics.jsonl", "result.json", "table.json", "scored/*", "density_grid.npz",
    "samples.png",
))  # fmt: skip

READERS: Sequence[Reader] = (
    Reader("text tables", "tables", TABLES, _load),
    Reader("binary tables", "tables", BINARY_TABLES, _load),
    Reader("arrays", "arrays", ("x.npy", "one.npz", "images.npy"), _load),
    Reader("arrays by key", "arrays", ("two.npz",), _load_keyed),
    Reader("image folders", "folder", ("photos/*",), _load_folder),
    Reader("zips of images", "zip", ("photos.zip",), _load),
    Reader(
        "MNIST",
        "mnist",
        ("mnist/*",),
        _in_data_folder(lambda *_: MNIST().load()),
        (change_gzip((change_idx,)), change_idx),
    ),
    Reader(
        "CIFAR-10",
        "cifar",
        ("cifar-10-batches-py/*",),
        _in_data_folder(lambda *_: CIFAR10((1,)).load()),
        (change_pickle,),
    ),
    Reader(
        "CIFAR-10 tar",
        "cifar_tar",
        ("*.gz",),
        _in_data_folder(lambda *_: CIFAR10((1,)).load()),
        (change_tar((change_pickle,)),),
    ),
    Reader(
        "SVHN", "svhn", ("part.mat",), _in_data_folder(lambda *_: SVHN(part="part.mat").load())
    ),
    Reader(
        "CelebA",
        "celeba",
        ("faces.zip", "list.txt"),
        _in_data_folder(
            lambda *_: CelebA(crop=16, size=8, part="faces.zip", partition="list.txt").load()
        ),
        names="/case/",
    ),
    Reader("UCI", "uci", ("uci/*",), _in_data_folder(lambda *_: RedWine().load())),
    Reader("scored tables", "tables", (*TABLES, "mixed.*"), _score),
    Reader("existing scores", "run", ("t.scores.csv",), _score_with_run),
    Reader("checkpoints", "run", ("run/checkpoints/*",), _load_checkpoint),
    Reader("configs", "run", ("run/config.json",), _open_run),
    Reader("configs and models", "run", ("run/config.json",), _load_model),
    Reader("models", "run", ("run/model.safetensors",), _load_model),
    Reader(
        "runs that score",
        "run",
        ("run/config.json", "run/table.json", "run/model.safetensors"),
        _score_with_run,
    ),
    Reader(
        "results and metrics", "run", ("run/result.json", "run/metrics.jsonl"), _evaluate_sentences
    ),
    Reader("reports", "run", REPORTED, _read_report),
    Reader("reports of studies", "study", ("study/study.json",), _read_report),
    Reader("report pages", "run", REPORTED, _write_report, share=0.05),
    Reader("pages of studies", "study", ("study/study.json",), _write_report, share=0.05),
    Reader("settings", "settings", ("settings.txt",), _settings, (change_cells,), " "),
)
