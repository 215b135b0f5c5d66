"""Reproduce tables and figures, `python -m paper table2`, and train recipes on other data."""

import sys
from collections.abc import Sequence

from fdsm.extras import name_missing_extra


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command on runs, or reproduce targets.

    Args:
        argv: The arguments. Default: those of the process.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        with name_missing_extra("python -m paper"):
            from .commands import COMMANDS, run_command
    except ImportError as error:
        sys.exit(f"paper: {error}")
    if words[:1] and words[0] in COMMANDS:
        run_command(words)
        return
    from .commands.targets import main as reproduce_targets

    reproduce_targets(words)


if __name__ == "__main__":
    main()
