"""`fdsm demo`: a demonstration on a table and on images of digits."""

import csv
import shlex
from pathlib import Path

from .options import set_threads
from .printing import console, log
from .reproduce import run_targets
from .score import score
from .train import train

DIAGNOSIS = "diagnosis"
TOP = 5
"""Number of rows that are printed with their reasons."""


def demo(out: Path = Path("runs/demo")) -> None:
    """Find tumours in a table, compare five models of digits, and write an HTML report.

    First `fdsm train` learns the benign rows of scikit-learn's breast-cancer table, and `fdsm
    score` finds the malignant ones and says why. Then DSM, FD-DSM, SSM, FD-SSM and Taylor-SSM
    learn images of digits. All takes a few minutes. Finished models are kept, so the same command
    shows the results again.

    Args:
        out: Folder of the results.
    """
    from ..paper.catalogue import target
    from ..paper.run_store import RunStore

    set_threads(1)
    table = _find_tumours(out / "breast-cancer")
    run_targets(
        [target("digits")],
        RunStore(out, console=console()),
        title="A table and five objectives on handwritten digits",
        page=out / "demo.html",
        more=[table],
    )


def _find_tumours(folder: Path) -> Path:
    """Train on benign rows and score all others, as a user would. Return the folder of the run."""
    run, benign, new = folder / "run", folder / "benign.csv", folder / "new.csv"
    if not new.exists():
        write_tables(folder)
    if not (run / "result.json").exists():
        log(f"$ fdsm train {shlex.quote(str(benign))} --out {shlex.quote(str(run))}")
        if (run / "config.json").exists():
            train(resume=run)
        else:
            train(str(benign), out=run)
    log(f"$ fdsm score {shlex.quote(str(run))} {shlex.quote(str(new))}")
    score(run, new)
    _print_scores(folder / "new.scores.csv")
    return run


def write_tables(folder: Path) -> None:
    """Write half of the benign rows to `benign.csv`, all others with the diagnosis to `new.csv`.

    Args:
        folder: The folder.
    """
    from sklearn.datasets import load_breast_cancer  # type: ignore[import-untyped]

    from ..atomic_io import replace_file

    data = load_breast_cancer()
    names, kinds = data.feature_names.tolist(), data.target_names[data.target].tolist()
    rows = [[*row, kind] for row, kind in zip(data.data.tolist(), kinds, strict=True)]
    benign = [row for row in rows if row[-1] == "benign"][::2]
    known = {id(row) for row in benign}
    new = [row for row in rows if id(row) not in known]
    folder.mkdir(parents=True, exist_ok=True)
    tables = {
        "benign.csv": [names, *(row[:-1] for row in benign)],
        "new.csv": [[*names, DIAGNOSIS], *new],
    }
    for name, lines in tables.items():
        with replace_file(folder / name) as draft, draft.open("w", newline="") as file:
            csv.writer(file).writerows(lines)


def _print_scores(path: Path) -> None:
    """Print how well the scores find malignant rows, and the reasons of the top rows."""
    import torch

    from ..evaluation import auc

    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    scores = {
        kind: torch.tensor([float(row["score"]) for row in rows if row[DIAGNOSIS] == kind])
        for kind in ("benign", "malignant")
    }
    flagged = {
        kind: sum(row["flagged"] == "true" for row in rows if row[DIAGNOSIS] == kind)
        for kind in scores
    }
    print(
        f"Of {len(scores['malignant'])} malignant rows {flagged['malignant']} are flagged, of "
        f"{len(scores['benign'])} benign ones {flagged['benign']}. The model has seen no "
        f"malignant row. AUC of the score: {auc(scores['benign'], scores['malignant']).value:.3f}."
    )
    print("The most unusual rows:")
    order = sorted(range(len(rows)), key=lambda i: -float(rows[i]["score"]))
    for i in order[:TOP]:
        print(f"  row {i + 1}, {rows[i][DIAGNOSIS]}, score {float(rows[i]['score']):.1f}:")
        print(f"    {rows[i]['reasons']}")
