"""The command `fdsm`, also as `python -m fdsm`."""

import sys

from .extras import name_missing_extra


def main() -> None:
    """Run the command, or say in one line what it needs."""
    try:
        with name_missing_extra("the command fdsm"):
            import rich  # ruff: ignore[unused-import]

            from .cli import main as run
    except ImportError as error:
        sys.exit(f"fdsm: {error}")
    run()


if __name__ == "__main__":
    main()
