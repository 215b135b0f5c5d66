"""Checkpoints: one file each, written atomically, verified by a digest, and free of code.

A checkpoint is a safetensors file. The name of a tensor is its path in the nested state. All
other values are JSON in the metadata, together with a digest of both. Loading executes no code
and detects damaged files.
"""

import hashlib
import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save as serialize
from torch import Tensor

from ..atomic_io import create_folder, replace_file
from ..serialize import Json
from ..untrusted import InputError, parse_json, require_file

__all__ = ["CheckpointError", "Checkpoints", "load", "save"]

FORMAT = "fdsm checkpoint 1"


class CheckpointError(InputError):
    """A file is not a checkpoint, or is damaged."""


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a nested state atomically.

    Args:
        path: The file to create or replace.
        state: Tensors, numbers, strings, booleans and `None`, in dictionaries, lists and tuples.
            Tuples are loaded as lists.
    """
    tensors: dict[str, Tensor] = {}
    structure = json.dumps(_encode(state, "", tensors), allow_nan=True)
    tensors = {key: t.detach().cpu().contiguous().clone() for key, t in tensors.items()}
    metadata = {"format": FORMAT, "state": structure, "digest": _digest(structure, tensors)}
    with replace_file(path) as draft:
        draft.write_bytes(serialize(tensors, metadata))


def load(path: Path) -> dict[str, Any]:
    """Read a nested state.

    Args:
        path: A file written by `save`.

    Returns:
        The state. All tensors are on the CPU.

    Raises:
        CheckpointError: If the file is not a checkpoint, or is damaged.
    """
    require_file(path, CheckpointError)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in list(file.keys())}
    except Exception as error:  # types that torch lacks, and sizes that overflow
        raise CheckpointError(f"{path} cannot be read as a checkpoint: {error}") from error
    if metadata.get("format") != FORMAT or not {"digest", "state"} <= metadata.keys():
        raise CheckpointError(f"{path} is a safetensors file, but not a checkpoint of fdsm")
    if metadata["digest"] != _digest(metadata["state"], tensors):
        raise CheckpointError(f"{path} is damaged: its content does not match its digest")
    try:
        state = _decode(parse_json(metadata["state"]), tensors)
    except (KeyError, ValueError, TypeError) as error:
        raise CheckpointError(f"the state in {path} cannot be read: {error!r}") from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{path} has no state, but a {type(state).__name__}")
    return state


def _encode(value: object, path: str, tensors: dict[str, Tensor]) -> Json:
    """Return a value as JSON, and add its tensors to `tensors` under their paths."""
    if isinstance(value, Tensor):
        tensors[path] = value
        return {"tensor": path}
    if isinstance(value, dict):
        return {"dict": [[k, _encode(v, f"{path}/{k}", tensors)] for k, v in value.items()]}
    if isinstance(value, (list, tuple)):
        return {"list": [_encode(v, f"{path}/{i}", tensors) for i, v in enumerate(value)]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a checkpoint cannot hold a {type(value).__name__} (at {path})")


def _decode(value: Json, tensors: dict[str, Tensor]) -> object:
    if not isinstance(value, dict):
        return value
    [(kind, content)] = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {key: _decode(item, tensors) for key, item in content}
    return [_decode(item, tensors) for item in content]


def _digest(structure: str, tensors: dict[str, Tensor]) -> str:
    digest = hashlib.blake2b(structure.encode(), digest_size=16)
    for key in sorted(tensors):
        digest.update(key.encode())
        digest.update(tensors[key].flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


class Checkpoints:
    """The checkpoints of a run: the most recent ones, and the best.

    Attributes:
        folder: The folder with `00000500.safetensors`, …, and `best.safetensors`.
        keep: Number of recent checkpoints to keep.
    """

    def __init__(self, folder: Path, keep: int = 3) -> None:
        """Set the folder. It is created with the first checkpoint.

        Args:
            folder: The folder of the checkpoints.
            keep: Number of recent checkpoints to keep.
        """
        self.folder, self.keep = folder, keep

    @property
    def best(self) -> Path:
        """The file of the best checkpoint, which may not exist."""
        return self.folder / "best.safetensors"

    def numbered(self) -> list[Path]:
        """Return the files of the recent checkpoints, newest first."""
        paths = [p for p in self.folder.glob("*.safetensors") if re.fullmatch(r"\d{8,}", p.stem)]
        return sorted(paths, key=lambda path: int(path.stem), reverse=True)

    def save(self, iteration: int, state: dict[str, Any]) -> Path:
        """Write a checkpoint and delete the oldest ones before it.

        Args:
            iteration: Number of completed iterations.
            state: The state to save.

        Returns:
            The file.
        """
        create_folder(self.folder)
        path = self.folder / f"{iteration:08d}.safetensors"
        if path.is_dir():
            path.rename(path.with_name(f"{path.name}.folder"))
        save(path, state)
        # Later ones are damaged, or training would have continued from them.
        before = [file for file in self.numbered() if int(file.stem) <= iteration]
        for old in before[self.keep :]:
            if not old.is_dir():
                old.unlink(missing_ok=True)
        return path

    def latest(self) -> dict[str, Any]:
        """Return the state of the newest valid checkpoint, and warn about damaged ones.

        Returns:
            The state.

        Raises:
            CheckpointError: If there is no valid checkpoint.
        """
        for state in self._valid():
            return state
        raise CheckpointError(
            f"there is no valid checkpoint in {self.folder}. Delete this folder to train again "
            "from the start"
        )

    def _valid(self) -> Iterator[dict[str, Any]]:
        for path in self.numbered():
            try:
                yield load(path)
            except CheckpointError as error:
                warnings.warn(f"{error}. Using the previous checkpoint", stacklevel=4)
