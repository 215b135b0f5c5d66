"""A run: a recipe and a seed, in a folder with everything that training produced.

```
config.json         recipe, data, seed and versions; the run is rebuilt from this file alone
metrics.jsonl       one line per logged iteration
launch.json         the launch of several processes, so that restarted ones find the run
checkpoints/        weights, optimizer, random state and position; the most recent and the best
model.safetensors   the trained model and the fitted transform
result.json         metrics of the test rows
samples.npy         samples; samples.png if they are images
samples_in_training pictures of samples, if a user trains on images
density_grid.npz    log-density and score on a grid, for data in two dimensions
```
"""

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import torch
from torch import nn

import fdsm
import paper
from fdsm.atomic_io import replace_file
from fdsm.serialize import Json, RecordError, differences, from_json, to_json
from fdsm.training import Checkpoints, derived_seed
from fdsm.untrusted import InputError, printable, quote, read_json

from ..data import Dataset, Source
from ..recipes.recipe import Recipe, seeded
from .recipe_file import load_file

FORMAT = 2
"""Version of the layout of `config.json`."""

WRITTEN = ("checkpoints", "samples", "samples_in_training", "tensorboard", ".lock")
"""Folders and files of a run that later commands write to without replacing them."""


class RunError(InputError):
    """A folder is not a run, already holds one, or does not match its files or data."""


class UnfinishedRunError(RunError):
    """A run whose training has not finished.

    Attributes:
        run: The run.
    """

    def __init__(self, run: "Run") -> None:
        super().__init__(f"the training of {run.folder} has not finished")
        self.run = run


class UntrustedFileError(InputError):
    """The recipe of a run is code in a file, and the caller has not agreed to execute it."""


@dataclass(frozen=True)
class Run:
    """A recipe, a seed and a folder.

    Attributes:
        folder: Directory of the run.
        recipe: The recipe.
        seed: Random seed of the weights, the order of the data and all noise.
        device: Device of the training.
        origin: Where the recipe came from: a row of the paper, or a file.
    """

    folder: Path
    recipe: Recipe
    seed: int = 0
    device: str = "cpu"
    origin: Mapping[str, Json] = field(default_factory=dict)

    @classmethod
    def create(
        cls,
        folder: Path,
        recipe: Recipe,
        *,
        seed: int = 0,
        device: str = "cpu",
        origin: Mapping[str, Json] | None = None,
    ) -> Self:
        """Start a run in a folder that holds none. Nothing is written yet.

        Args:
            folder: Directory of the run. It is created when training starts.
            recipe: The recipe.
            seed: Random seed.
            device: Device of the training.
            origin: Where the recipe came from.

        Returns:
            The run.

        Raises:
            RunError: If the folder holds a run with a checkpoint or a model, or a link that leads
                out of it.
        """
        run = cls(folder, recipe, seed, device, dict(origin or {}))
        _require_inside(folder)
        if run.checkpoints.numbered() or run.model_path.exists():
            raise RunError(f"{folder} already holds a run. Choose another folder, or resume it")
        return run

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        trust: bool = False,
        device: str | None = None,
    ) -> Self:
        """Open an existing run from its `config.json`.

        Args:
            folder: Directory of the run.
            trust: Whether to execute the file that the recipe is defined in, if there is one.
            device: Device to use, if not the one it was trained on.

        Returns:
            The run.

        Raises:
            RunError: If there is no run, or this version cannot read it.
            UntrustedFileError: If the recipe is defined in a file and `trust` is false.
        """
        config = _read_config(folder)
        _require_inside(folder)
        try:
            origin, seed = dict(config.get("origin") or {}), int(config["seed"])
            was_on, record = str(torch.device(config["device"])), config["recipe"]
        except (LookupError, TypeError, ValueError, OverflowError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            raise RunError(
                f"{folder / 'config.json'} is damaged: {type(error).__name__}: {reason}"
            ) from error
        file = origin.get("file")
        if file and not trust:
            raise UntrustedFileError(f"the recipe of {folder} is code in {file}")
        try:
            recipe = _read_recipe(record, *([load_file(Path(str(file)))] if file else []))
        except (ValueError, TypeError) as error:
            cause = f"{file} has changed, or it is damaged" if file else "it was edited or damaged"
            if (maker := _maker(config)) != _maker(environment_info()):
                cause = f"it was written by {maker}"
            raise RunError(
                f"{folder / 'config.json'} cannot be opened by {fdsm.__version__}: {cause}: "
                f"{error}"
            ) from error
        return cls(folder, recipe, seed, device or was_on, origin)

    @property
    def name(self) -> str:
        """Name of the recipe, for messages."""
        return printable(self.recipe.name)

    @property
    def model_path(self) -> Path:
        """The file of the trained model."""
        return self.folder / "model.safetensors"

    @property
    def is_trained(self) -> bool:
        """Whether training has finished."""
        return self.model_path.exists()

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints."""
        return Checkpoints(self.folder / "checkpoints", self.recipe.plan.keep_checkpoints)

    @property
    def config(self) -> dict[str, Any]:
        """The content of `config.json`."""
        return _read_config(self.folder)

    @property
    def result(self) -> dict[str, Any]:
        """The content of `result.json`."""
        return _read_object(self.folder / "result.json")

    def with_source(self, source: Source) -> Self:
        """Return the same run with another source. The content of the data must be the same."""
        return replace(self, recipe=replace(self.recipe, data=source))  # type: ignore[type-var]

    def require_same_settings(self) -> None:
        """Raise `RunError` if the folder holds a run with another recipe or seed."""
        there = _settings(self.config)
        here = _settings({"seed": self.seed, "recipe": to_json(self.recipe)})
        if changes := differences(there, _recorded(here, there)):
            raise RunError(
                f"{self.folder} holds a run with other settings ({'; '.join(changes)}). Resume "
                "that run, or choose another folder"
            )

    def require_same_data(self, data: Dataset) -> None:
        """Raise `RunError` if the data are not those that the run was trained on."""
        changed = differences(_identity(self.config.get("data", {})), _identity(data.record))
        if changed:
            raise RunError(
                f"the data of {self.folder} have changed since training started: "
                f"{'; '.join(changed)}. Restore them, or train a new model"
            )

    @property
    def digest(self) -> str:
        """A digest of the entries of `config.json` that determine the result.

        Checkpoints and models hold it, so that a config that was damaged or edited is noticed. It
        does not depend on the place of the data.
        """
        config = self.config
        shapes = {name: config.get(name) for name in ("shape", "stored_shape")}
        parts = [_settings(config), _identity(config.get("data") or {}), shapes]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def require_digest(self, digest: str | None, file: Path | None = None) -> None:
        """Raise `RunError` if a training or a file began with another `config.json`.

        Args:
            digest: The digest then; `None`, as in files of earlier versions, is accepted.
            file: The file that has it.

        Raises:
            RunError: If the digests differ.
        """
        if digest is not None and digest != self.digest:
            other = "" if file is None else f", or {file} is damaged or comes from another run"
            raise RunError(
                f"{self.folder / 'config.json'} was edited or damaged after training started"
                f"{other}. Restore it, or train a new model"
            )

    def generator(self, *purpose: int | str) -> torch.Generator:
        """Return a generator for one purpose, seeded by the run's seed and that purpose."""
        return seeded(self.device, derived_seed(self.seed, *purpose))

    def build(self, shape: torch.Size) -> nn.Module:
        """Return the untrained model for events of a shape."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed(self.seed, "weights"))
            return self.recipe.build(shape).to(self.device)

    def write(self, name: str, content: Json) -> None:
        """Write a JSON file into the folder, atomically."""
        with replace_file(self.folder / name) as draft:
            draft.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the seed and the recipe of a config, without the place of the data."""
    recipe = config.get("recipe")
    if isinstance(recipe, dict) and isinstance(recipe.get("data"), dict):
        data = {name: value for name, value in recipe["data"].items() if name != "path"}
        recipe = {**recipe, "data": data}
    return {"seed": config.get("seed"), "recipe": recipe}


def _recorded(new: Json, old: Json) -> Json:
    """Return a record without the fields that the version which wrote the old one did not have."""
    if isinstance(new, dict) and isinstance(old, dict):
        return {name: _recorded(new[name], old[name]) for name in new if name in old}
    if isinstance(new, (list, tuple)) and isinstance(old, list) and len(new) == len(old):
        return [_recorded(*pair) for pair in zip(new, old, strict=True)]
    return new


def new_config(run: Run, data: Dataset, model: nn.Module) -> Json:
    """Return the content of `config.json` of a run that starts."""
    return {
        "format": FORMAT,
        "origin": dict(run.origin),
        "seed": run.seed,
        "device": run.device,
        "recipe": to_json(run.recipe),
        "provenance": run.recipe.provenance,
        "data": data.record,
        "shape": list(data.shape),
        "stored_shape": list(data.train.shape[1:]),
        "parameters": sum(p.numel() for p in model.parameters()),
        **environment_info(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def environment_info() -> dict[str, Json]:
    """Return the versions of the software and a description of the machine, as a record.

    Results of the same settings depend on the CPU kernels, which round differently.
    """
    kernels = f"{torch.backends.cpu.get_cpu_capability()} kernels"
    return {
        "versions": {
            "fdsm": fdsm.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "machine": (
            f"{platform.system()} {platform.machine()}, {kernels}, "
            f"threads: {torch.get_num_threads()}"
        ),
    }


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        raise RunError(f"{folder} is not the folder of a run: it has no config.json")
    config = _read_object(path)
    if config.get("format") != FORMAT:
        if _maker(config) == _maker(environment_info()):
            raise RunError(f"{path} is damaged: format is {quote(config.get('format'))}")
        raise RunError(
            f"{folder} was written by {_maker(config)}, whose config.json has another layout. "
            f"Open it with that version, or train it again with {fdsm.__version__}"
        )
    _require_types(path, config)
    return config


def _read_object(path: Path) -> dict[str, Any]:
    value = read_json(path, RunError)
    if not isinstance(value, dict):
        raise RunError(f"{path} is damaged: it holds a {type(value).__name__}, not an object")
    return value


def _require_inside(folder: Path) -> None:
    """Raise `RunError` if a link in the folder of a run would lead writes out of the folder."""
    for name in WRITTEN:
        path = folder / name
        if path.is_symlink() and folder.resolve() not in path.resolve().parents:
            raise RunError(
                f"{path} is a link to {path.resolve()}, outside the run. Replace it with a copy"
            )


def _require_types(path: Path, config: dict[str, Any]) -> None:
    """Raise `RunError` if entries that are used without the recipe have other types."""
    data, shape = config.get("data", {}), config.get("stored_shape", [])
    is_object = isinstance(data, dict)
    problems = [] if is_object else ["data must be an object"]
    if is_object and not _is_list_of(data.get("files", []), dict):
        problems.append("data.files must be a list of objects")
    if is_object and data.get("columns") is not None and not _is_list_of(data["columns"], str):
        problems.append("data.columns must be a list of names")
    if not _is_list_of(shape, int):
        problems.append("stored_shape must be a list of integers")
    if problems:
        raise RunError(f"{path} is damaged: {', '.join(problems)}")


def _is_list_of(value: Json, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)


def _read_recipe(record: Json, *trusted: ModuleType) -> Recipe:
    recipe = from_json(record, paper, *trusted)
    if not isinstance(recipe, Recipe):
        raise RecordError(f"{quote(recipe)} is not a recipe")
    return recipe


def _maker(config: dict[str, Any]) -> str:
    """Return the version of the package that wrote a config."""
    versions = config.get("versions")
    if not (isinstance(versions, dict) and "fdsm" in versions):
        return "an unknown version of fdsm"
    return f"fdsm {versions['fdsm']!s:.20}"


def _identity(record: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a data record that does not depend on where the files are."""
    files = [file.get("sha256") for file in record.get("files", [])]
    return {"rows": record.get("rows"), "columns": record.get("columns"), "sha256": files}
