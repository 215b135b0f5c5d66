"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

from tyro.conf import FlagCreatePairsOff, Positional, arg

from ..untrusted import InputError

# The help text of an option without a fixed default states the default, so tyro's hint is off.
PathOption = Annotated[Path | None, arg(metavar="PATH", help_behavior_hint="")]
IntOption = Annotated[int | None, arg(metavar="INT", help_behavior_hint="")]
FloatOption = Annotated[float | None, arg(metavar="FLOAT", help_behavior_hint="")]
Flag = Annotated[FlagCreatePairsOff[bool], arg(help_behavior_hint="")]
ModelFolder = Annotated[Positional[Path], arg(metavar="MODEL")]


class UsageError(InputError):
    """The arguments of a command are invalid or contradict each other."""


def require_device(device: str) -> str:
    """Return the device if torch can use it.

    Args:
        device: The device, such as `cuda`.

    Returns:
        The device.

    Raises:
        UsageError: If torch cannot use it.
    """
    import torch

    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(
            f"torch cannot use the device {device!r} here: {reason}. Choose another with --device"
        ) from error
    return device
