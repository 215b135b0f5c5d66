"""What the checks find: refused with an error, warned of once per model, or collected.

`fdsm.check` collects. Everywhere else, a finding that makes a derivative wrong is an error, one
that may is a warning, and the others are not mentioned.
"""

import sys
import warnings
from dataclasses import dataclass
from types import FrameType
from typing import Literal

from .state import THREAD, is_tracing

Severity = Literal["fine", "note", "warning", "error"]
"""A `note` does no harm here; `warning` and `error` are what an engine makes of a finding."""


@dataclass(frozen=True)
class Finding:
    """One fact about a model.

    Attributes:
        kind: Its subject: `"rows"`, `"random numbers"`, `"buffers"`, `"precision"`, `"rounding"`,
            `"truncation"`, `"gradients"`, `"kinks"`, `"evaluation"`, `"step"` or `"consistency"`.
        severity: `"fine"`, `"note"`, `"warning"` or `"error"`.
        message: The fact, and what to do about it.
        value: The number that was measured, if any.
    """

    kind: str
    severity: Severity
    message: str
    value: float | None = None

    def __str__(self) -> str:
        return f"{self.severity:7}  {self.kind:14}  {self.message}"


def refuse(
    kind: str,
    message: str,
    error: type[Exception] = RuntimeError,
    *,
    value: float | None = None,
) -> None:
    """Raise an error about a model, unless findings are collected.

    Args:
        kind: The subject; see `Finding`.
        message: What is wrong, and what to do about it.
        error: The type of the error.
        value: The number that was measured, if any.
    """
    if is_tracing() or THREAD.findings is None:
        raise error(message)
    THREAD.findings.append(Finding(kind, "error", message, value))


def warn(
    kind: str,
    message: str,
    category: type[Warning],
    *,
    warned: set[str] | None = None,
    name: str | None = None,
    per: str = "model",
    value: float | None = None,
) -> None:
    """Warn about a model, once, unless findings are collected.

    Args:
        kind: The subject; see `Finding`.
        message: What is wrong, and what to do about it.
        category: The type of the warning.
        warned: Names of the warnings already shown for the model. Default: warn again.
        name: The name of this warning. Default: the kind.
        per: What the name stands for, for the message.
        value: The number that was measured, if any.
    """
    if THREAD.findings is not None:
        THREAD.findings.append(Finding(kind, "warning", message, value))
        return
    if warned is not None:
        name = name or kind
        if name in warned:
            return
        warned.add(name)
        message += f". (Shown once per {per}.)"
    warnings.warn(message, category, stacklevel=levels_to_caller())


def note(kind: str, message: str, *, value: float | None = None, fine: bool = True) -> None:
    """Mention something that does no harm, if findings are collected."""
    if THREAD.findings is not None:
        THREAD.findings.append(Finding(kind, "fine" if fine else "note", message, value))


def levels_to_caller() -> int:
    """Return the `stacklevel` at which a warning names code outside of this package and torch."""
    packages = (__name__.partition(".")[0], "torch")
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] in packages:
        frame, level = frame.f_back, level + 1
    return level
