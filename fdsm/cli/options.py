"""Options that several commands have, and what they may be."""

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import FlagCreatePairsOff, Positional, arg

Scale = Literal["cpu", "paper"]
Place = Annotated[Path | None, arg(metavar="PATH")]
Device = Annotated[str | None, arg(metavar="DEVICE")]
Number = Annotated[int | None, arg(metavar="INT")]
Flag = FlagCreatePairsOff[bool]
RunFolder = Annotated[Positional[Path], arg(metavar="RUN")]


class UsageError(ValueError):
    """A command was asked for something that does not make sense."""


def set_threads(threads: int | None) -> None:
    """Let torch use so many threads, or as many as it likes.

    Raises:
        UsageError: If there are none.
    """
    if threads is None:
        return
    if threads < 1:
        raise UsageError(f"--threads must be at least 1, but is {threads}")

    import torch

    torch.set_num_threads(threads)


def usable(device: str | None) -> str | None:
    """Return a device on which torch can compute here.

    Raises:
        UsageError: If it cannot.
    """
    import torch

    if device is not None:
        try:
            torch.zeros(1, device=device).item()
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            reason = str(error).splitlines()[0]
            raise UsageError(
                f"torch cannot compute on {device!r} here: {reason}; choose another with --device"
            ) from error
    return device
