"""Run cases in worker processes; see tests/nightly/fuzz/__main__.py."""

from tests.nightly.fuzz.__main__ import main

if __name__ == "__main__":
    main("paper.tests.nightly.fuzz")
