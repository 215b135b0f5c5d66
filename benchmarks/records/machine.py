"""The machine and the versions that a measurement depends on."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fdsm.serialize import Json

PACKAGES = ("fdsm", "torch", "jax", "jaxlib", "folx", "torchebm", "jet-for-pytorch")


def describe_machine() -> dict[str, Json]:
    """Return the processor, the number of its cores, and versions of Python and packages."""
    machine: dict[str, Json] = {
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
    }
    for name in PACKAGES:
        try:
            machine[name] = version(name)
        except PackageNotFoundError:
            continue
    return machine


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the model of the processor.

    Args:
        cpuinfo: The file in which Linux describes it.

    Returns:
        The name, or the architecture on other systems.
    """
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()
