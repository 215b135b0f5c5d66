"""`fdsm demo`: a demonstration on images of digits."""

from pathlib import Path

from .options import set_threads
from .printing import console
from .reproduce import run_targets


def demo(out: Path = Path("runs/demo")) -> None:
    """Train five models of handwritten digits, compare them and write an HTML report.

    Trains DSM, FD-DSM, SSM, FD-SSM and Taylor-SSM on images that come with scikit-learn, in a few
    minutes. Finished models are kept, so the same command shows the results again.

    Args:
        out: Folder of the results.
    """
    from ..paper.catalogue import target
    from ..paper.run_store import RunStore

    set_threads(1)
    title = "Five objectives on handwritten digits"
    run_targets([target("digits")], RunStore(out, console=console()), title=title)
