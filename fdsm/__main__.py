"""Make `python -m fdsm` the same as `fdsm`."""

from .cli import main

if __name__ == "__main__":
    main()
