"""Options that several commands share."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import FlagCreatePairsOff, Positional, arg

from fdsm.untrusted import InputError

if TYPE_CHECKING:
    from ..runs import Run

# The help text of an option without a fixed default states the default, so tyro's hint is off.
PathOption = Annotated[Path | None, arg(metavar="PATH", help_behavior_hint="")]
DeviceOption = Annotated[str | None, arg(metavar="DEVICE", help_behavior_hint="")]
IntOption = Annotated[int | None, arg(metavar="INT", help_behavior_hint="")]
Flag = Annotated[FlagCreatePairsOff[bool], arg(help_behavior_hint="")]
RunFolder = Annotated[Positional[Path], arg(metavar="RUN")]


class UsageError(InputError):
    """The arguments of a command are invalid or contradict each other."""


def set_threads(threads: int | None) -> None:
    """Set the number of threads of torch.

    Args:
        threads: The number. `None` does not change it.

    Raises:
        UsageError: If it is not positive.
    """
    if threads is None:
        return
    if threads < 1:
        raise UsageError(f"--threads must be at least 1, but is {threads}")

    import torch

    torch.set_num_threads(threads)


def require_device(device: str | None) -> str:
    """Return the device if torch can use it, the CPU if none is given.

    Args:
        device: The device, such as `cuda`.

    Returns:
        The device.

    Raises:
        UsageError: If torch cannot use it.
    """
    import torch

    device = device or "cpu"
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(
            f"torch cannot use the device {device!r} here: {reason}. Choose another with --device"
        ) from error
    return device


def open_run(folder: Path, *, trust: bool, device: str | None) -> "Run":
    """Return the run in a folder, on a device that torch can use."""
    from ..runs import Run

    run = Run.open(folder, trust=trust, device=device)
    require_device(run.device)
    return run


def resume_command(run: "Run") -> str:
    """Return the command that continues the training of a run."""
    trust = " --trust" if run.origin.get("file") else ""
    return f"python -m paper train --resume {shlex.quote(str(run.folder))}{trust}"
