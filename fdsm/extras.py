"""Packages that only some parts of fdsm need."""

from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["name_missing_extra"]

EXTRAS = {
    "filelock": "all",
    "jinja2": "tables",
    "matplotlib": "tables",
    "pillow": "all",
    "pooch": "all",
    "pyarrow": "tables",
    "rich": "tables",
    "scikit-learn": "tables",
    "tensorboard": "tensorboard",
    "tyro": "tables",
}
"""The smallest extra that installs each package."""
DISTRIBUTIONS = {"PIL": "pillow", "sklearn": "scikit-learn"}
"""Names for pip, where they differ from the names that are imported."""


@contextmanager
def name_missing_extra(purpose: str) -> Generator[None]:
    """Say which extra to install, if a package of `EXTRAS` cannot be imported.

    Args:
        purpose: What the package is for, as the subject of a sentence.

    Yields:
        Nothing. Put the import into the block.

    Raises:
        ImportError: If the package is missing, or too old for what is imported from it.

    Example:
        >>> with name_missing_extra("reading tables"):
        ...     raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")
        Traceback (most recent call last):
        ImportError: reading tables needs pyarrow. Install it with: pip install 'fdsm[tables]'
    """
    try:
        yield
    except ImportError as error:
        module = (error.name or "").partition(".")[0]
        package = DISTRIBUTIONS.get(module, module)
        if package not in EXTRAS:
            raise
        raise ImportError(
            f"{purpose} needs {package}. Install it with: pip install 'fdsm[{EXTRAS[package]}]'"
        ) from error
