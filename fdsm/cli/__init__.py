"""The command `fdsm`."""

from .main import main

__all__ = ["main"]
