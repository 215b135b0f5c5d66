"""Files of results: JSON and plots."""

import re
from pathlib import Path

from fdsm.atomic_io import replace_file

from .curves import Trainings
from .record import Record, write_record


def write_results(results: Record | Trainings, folder: Path) -> list[Path]:
    """Write results as JSON and as plots.

    Args:
        results: The results.
        folder: The folder. It is created if it does not exist.

    Returns:
        The files.
    """
    from .plots import ratio_svg, training_svgs

    files = [write_record(results, folder / f"{results.name}.json")]
    if isinstance(results, Record):
        plots = {results.name: ratio_svg(results)}
    else:
        plots = {
            f"{results.name}-{re.sub(r'[^a-z0-9]+', '-', problem.lower())}": svg
            for problem, svg in training_svgs(results).items()
        }
    for name, svg in plots.items():
        files.append(folder / f"{name}.svg")
        with replace_file(files[-1]) as draft:
            draft.write_text(svg, encoding="utf-8")
    return files
