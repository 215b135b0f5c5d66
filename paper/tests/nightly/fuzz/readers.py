"""Every function of the reproduction that reads a file, and what is changed in its files."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from fdsm.training import checkpoint
from paper.commands.evaluate import warn_of_problems
from paper.data import CIFAR10, MNIST, SVHN, CelebA, ImageFolder, RedWine, from_path
from paper.recipes.settings import change_settings
from paper.runs import Run, SavedModel
from tests.nightly.fuzz.archive_mutations import change_gzip, change_tar
from tests.nightly.fuzz.binary_mutations import change_idx, change_pickle
from tests.nightly.fuzz.readers import Read, Reader
from tests.nightly.fuzz.text_mutations import change_cells


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


def _open_run(folder: Path, file: Path) -> Iterable[str]:
    run = Run.open(folder / "run")
    return [run.name]


def _load_model(folder: Path, file: Path) -> Iterable[str]:
    """Open a run and use its model, as `python -m paper sample` does."""
    saved = SavedModel.load(Run.open(folder / "run"))
    saved.sample(2, lambda steps: steps)
    return []


def _problems(folder: Path, file: Path) -> Iterable[str]:
    warn_of_problems(Run.open(folder / "run"))
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
    run = Run.open(Path(os.environ["FUZZ_SEEDS"]) / "run" / "run")
    lines = file.read_bytes().decode("utf-8", "replace").split("\n")
    change_settings(run.recipe, [line for line in lines if line])
    return []


REPORTED = tuple(f"run/{name}" for name in (
    "config.json", "metrics.jsonl", "result.json", "density_grid.npz",
    "samples.png",
))  # fmt: skip

READERS: Sequence[Reader] = (
    Reader("arrays", "arrays", ("images.npy", "one.npz"), _load),
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
    Reader("checkpoints", "run", ("run/checkpoints/*",), _load_checkpoint),
    Reader("configs", "run", ("run/config.json",), _open_run),
    Reader("configs and models", "run", ("run/config.json",), _load_model),
    Reader("models", "run", ("run/model.safetensors",), _load_model),
    Reader("results", "run", ("run/result.json",), _problems),
    Reader("reports", "run", REPORTED, _read_report),
    Reader("reports of studies", "study", ("study/study.json",), _read_report),
    Reader("report pages", "run", REPORTED, _write_report, share=0.05),
    Reader("pages of studies", "study", ("study/study.json",), _write_report, share=0.05),
    Reader("settings", "settings", ("settings.txt",), _settings, (change_cells,), " "),
)
