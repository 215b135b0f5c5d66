"""Checkpoints: one file each, whole or not there, verified, and without code in it.

A checkpoint is a safetensors file. Tensors are stored under the path they have in the nested
state; everything else is JSON in the metadata, together with a digest of both. Loading executes
nothing, and notices a file that was damaged after it was written.
"""

import hashlib
import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialised
from torch import Tensor

from ..atomic_io import replace_file
from ..serialize import Json

FORMAT = "fdsm checkpoint 1"


class CheckpointError(ValueError):
    """A file is not a checkpoint, or not a whole one."""


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a nested state atomically.

    Args:
        path: The file to make or replace.
        state: Tensors, numbers, strings, booleans and `None`, in dictionaries, lists and tuples
            (which come back as lists).
    """
    tensors: dict[str, Tensor] = {}
    structure = json.dumps(_encode(state, "", tensors), allow_nan=True)
    tensors = {key: t.detach().cpu().contiguous().clone() for key, t in tensors.items()}
    metadata = {"format": FORMAT, "state": structure, "digest": _digest(structure, tensors)}
    with replace_file(path) as draft:
        draft.write_bytes(serialised(tensors, metadata))


def load(path: Path) -> dict[str, Any]:
    """Read a nested state.

    Args:
        path: A file written by `save`.

    Returns:
        The state, with all tensors on the CPU.

    Raises:
        CheckpointError: If it is not such a file, or is damaged.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in list(file.keys())}
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} cannot be read as a checkpoint: {error}") from error
    if metadata.get("format") != FORMAT or not {"digest", "state"} <= metadata.keys():
        raise CheckpointError(f"{path} is a safetensors file, but not a checkpoint of fdsm")
    if metadata["digest"] != _digest(metadata["state"], tensors):
        raise CheckpointError(f"{path} was damaged after it was written: its digest differs")
    try:
        return cast(dict[str, Any], _decode(json.loads(metadata["state"]), tensors))
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{path} holds a state that cannot be read: {error!r}") from error


def _encode(value: object, path: str, tensors: dict[str, Tensor]) -> Json:
    """Return a value as JSON, and put the tensors in it where they can be found again."""
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
    """The checkpoints of a run: the last few, and the best.

    Attributes:
        folder: Where they are, as `00000500.safetensors` and `best.safetensors`.
        keep: How many of the last to keep.
    """

    def __init__(self, folder: Path, keep: int = 3) -> None:
        """Name the folder, which is made when something is written.

        Args:
            folder: Where they are.
            keep: How many of the last to keep.
        """
        self.folder, self.keep = folder, keep

    @property
    def best(self) -> Path:
        """Where the best one is, if there is one."""
        return self.folder / "best.safetensors"

    def numbered(self) -> list[Path]:
        """Return the files of the last checkpoints, newest first."""
        files = self.folder.glob("*.safetensors")
        return sorted((f for f in files if re.fullmatch(r"\d{8,}", f.stem)), reverse=True)

    def save(self, iteration: int, state: dict[str, Any]) -> Path:
        """Write the checkpoint after some iterations and delete those that are too old.

        Args:
            iteration: How many iterations were made.
            state: What to keep.

        Returns:
            The file.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{iteration:08d}.safetensors"
        save(path, state)
        for old in self.numbered()[self.keep :]:
            old.unlink(missing_ok=True)
        return path

    def latest(self) -> dict[str, Any]:
        """Return the newest whole checkpoint, with a warning for every damaged one.

        Returns:
            The state.

        Raises:
            CheckpointError: If there is none.
        """
        for state in self._whole():
            return state
        raise CheckpointError(f"there is no whole checkpoint in {self.folder}")

    def _whole(self) -> Iterator[dict[str, Any]]:
        for path in self.numbered():
            try:
                yield load(path)
            except CheckpointError as error:
                warnings.warn(f"{error}; going back to the one before", stacklevel=4)
