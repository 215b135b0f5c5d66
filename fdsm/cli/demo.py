"""`fdsm demo`: a demonstration on a table and on images of digits."""

import csv
import shlex
from pathlib import Path

from .options import set_threads
from .printing import console, log, progress, report_files
from .score import score
from .train import train

DIAGNOSIS = "diagnosis"
PRINTED_ROWS = 5
"""Number of rows that are printed with their reasons."""


def demo(out: Path = Path("runs/demo")) -> None:
    """Find tumors in a table, compare five models of digits, and write an HTML report.

    First `fdsm train` learns the benign rows of scikit-learn's breast-cancer table, and `fdsm
    score` finds the malignant ones and says why. Then DSM, FD-DSM, SSM, FD-SSM and Taylor-SSM
    learn images of digits. This takes a few minutes. Finished models are kept, so the same command
    shows the results again.

    Args:
        out: Folder of the results.
    """
    from paper.report import RowInfo, TargetInfo, read_folders, terminal, write_page

    set_threads(1)
    table = _find_tumors(out / "breast-cancer")
    digits = _compare_objectives(out / "digits")
    rows = {name: RowInfo("DSM" if name.endswith("DSM") else "SSM") for name in digits}
    title = "Demonstration: five objectives on 8 × 8 digits"
    target = TargetInfo("digits", title, rows)
    console(stderr=False).print(terminal(read_folders(list(digits.values()), [target])))
    collection = read_folders([table, *digits.values()], [target])
    page = out / "demo.html"
    write_page(collection, page, title="A table and five objectives on handwritten digits")
    report_files([page], json=False)


def _compare_objectives(folder: Path) -> dict[str, Path]:
    """Train one model of digits for each objective. Return the folders by name."""
    from paper.recipes.digits import DIGITS

    from paper.runs import Run, evaluate, measure_step_costs
    from paper.runs import train as train_run

    from ..atomic_io import exclusive

    runs: dict[str, Run] = {}
    for recipe in DIGITS:
        path = folder / recipe.name / "0"
        origin = {"target": "digits", "row": recipe.name}
        exists = (path / "config.json").exists()
        run = Run.open(path) if exists else Run.create(path, recipe, origin=origin)
        if not (path / "result.json").exists():
            log(f"digits: {recipe.name}")
            data = recipe.data.load()
            saved = train_run(run, data, console=console())
            with exclusive(path):
                evaluate(saved, data, progress("digits"), references=False)
        runs[recipe.name] = run
    if not all("milliseconds_per_iteration" in run.result for run in runs.values()):
        log("digits: timing the training steps, interleaved")
        costs = measure_step_costs(list(runs.values()))
        for run, cost in zip(runs.values(), costs, strict=True):
            with exclusive(run.folder):
                run.write("result.json", run.result | cost.record() | {"timed_with": list(runs)})
    return {name: run.folder for name, run in runs.items()}


def _find_tumors(folder: Path) -> Path:
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

    Raises:
        ImportError: If scikit-learn is not installed.
    """
    from ..atomic_io import replace_file
    from ..extras import name_missing_extra

    with name_missing_extra("the demo"):
        from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    names, kinds = data.feature_names.tolist(), data.target_names[data.target].tolist()
    rows = [[*row, kind] for row, kind in zip(data.data.tolist(), kinds, strict=True)]
    benign = [row for row in rows if row[-1] == "benign"][::2]
    training_rows = {id(row) for row in benign}
    new = [row for row in rows if id(row) not in training_rows]
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
    for i in order[:PRINTED_ROWS]:
        print(f"  row {i + 1}, {rows[i][DIAGNOSIS]}, score {float(rows[i]['score']):.1f}:")
        print(f"    {rows[i]['reasons']}")
