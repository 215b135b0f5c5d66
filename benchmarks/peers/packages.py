"""Which of the packages to compare with are installed."""

from importlib.util import find_spec

PACKAGES = ("torchebm", "jax", "folx", "jet")


def installed() -> frozenset[str]:
    """Return which of the packages can be imported. Those with jax need jax itself too."""
    importable = {name for name in PACKAGES if find_spec(name)}
    return frozenset(importable if "jax" in importable else importable - {"folx"})


def missing_message(importable: frozenset[str]) -> str:
    """Return one line about packages that cannot be imported, or an empty text.

    Args:
        importable: The packages that can be imported.

    Returns:
        The line, with the command that installs them.

    Example:
        >>> missing_message(frozenset(PACKAGES))
        ''
    """
    missing = [name for name in PACKAGES if name not in importable]
    if not missing:
        return ""
    return (
        f"Not installed, so left out: {', '.join(missing)}. Install them into an environment of "
        "their own: pip install jax jaxlib folx torchebm jet-for-pytorch"
    )
