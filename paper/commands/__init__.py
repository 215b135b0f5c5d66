"""The commands on runs: `python -m paper train`, `sample`, `evaluate`, `check` and `report`."""

from .app import COMMANDS, run_command

__all__ = ["COMMANDS", "run_command"]
