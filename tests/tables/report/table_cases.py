"""Made-up contents of `table.json` and of a file in `scored/`."""

import copy
import json
from pathlib import Path
from typing import Any

from paper.tests.report.report_cases import edit, write_user_run

TABLE: dict[str, Any] = {
    "rows": {"train": 10, "held_out": 4, "samples": 20},
    "columns": [
        {"name": "alcohol", "type": "numeric", "details": "", "missing": 0.1, "used": True},
        {
            "name": "region",
            "type": "categorical",
            "details": "2 categories: north, south",
            "missing": 0.0,
            "used": True,
        },
        {
            "name": "id",
            "type": "identifier",
            "details": "unique per row",
            "missing": None,
            "used": False,
        },
    ],
    "histograms": [
        {
            "column": "alcohol",
            "edges": [0.0, 1.0, 3.0],
            "is_date": False,
            "data": {"counts": [2, 6], "below": 0, "above": 1, "missing": 1},
            "samples": {"counts": [5, 15], "below": 0, "above": 0, "missing": 0},
            "distance": 0.125,
            "held_out_distance": 0.25,
        },
        {
            "column": "region",
            "levels": ["north", "south"],
            "is_date": False,
            "data": {"counts": [7, 3]},
            "samples": {"counts": [14, 6]},
            "distance": 0.0,
            "held_out_distance": None,
        },
    ],
    "histograms_left_out": 0,
    "correlations": {
        "columns": ["alcohol", "region", "flat"],
        "data": [[1.0, -0.25, None], [-0.25, 1.0, None], [None, None, None]],
        "samples": [[1.0, 0.5, None], [0.5, 1.0, None], [None, None, None]],
        "left_out": 0,
    },
    "scores": {
        "edges": [0.0, 1.0, 3.0, 5.0, 9.0],
        "train": {"counts": [5, 4, 1, 0], "below": 0, "above": 0},
        "held_out": {"counts": [1, 2, 1, 0], "below": 0, "above": 0},
    },
    "calibration": {"counts": [2, 0, 1, 1], "expected": 1.0, "low": 0, "high": 3},
    "sample_auc": 0.625,
}

SCORED: dict[str, Any] = {
    "file": "new.csv",
    "rows": 8,
    "flagged": 2,
    "fdr": 0.1,
    "threshold": 4.0,
    "score_histogram": {"edges": [0.0, 1.0, 3.0, 5.0, 900.0], "counts": [3, 3, 0, 1], "above": 1},
    "top": [
        {
            "row": 7,
            "score": 1234.5,
            "p_value": 0.2,
            "reasons": [
                {"column": "alcohol", "value": 2.1, "expected": 10.4, "share": 0.62},
                {"column": "region", "value": "east", "expected": "north", "share": 0.2},
            ],
        },
        {"row": 3, "score": 6.0, "p_value": 0.25, "reasons": []},
    ],
}


def write_table_run(folder: Path, *, scored: bool = True) -> Path:
    """Write a run on a table, with a scored file if wanted."""
    write_user_run(folder)
    (folder / "metrics.jsonl").unlink()
    (folder / "table.json").write_text(json.dumps(TABLE))
    if scored:
        (folder / "scored").mkdir()
        (folder / "scored" / "new.json").write_text(json.dumps(SCORED))
    return folder


def write_cross_fitted_run(folder: Path) -> Path:
    """Write a run on a table in which each row is held out by one of four members."""
    write_table_run(folder)
    recipe = {"recipe.class": "fdsm.recipes.CrossFittedEBM", "recipe.folds": 4}
    rows = {"train": 1320, "validation": 0, "test": 0}
    edit(folder / "config.json", {**recipe, "data.rows": rows})
    lines = [{"iteration": i, "seconds": 0.5 * i, "validation": {"loss": 1 / i}} for i in (1, 2)]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


def changed(record: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """Return a copy of a record with another value at a dotted path."""
    copied = copy.deepcopy(record)
    *parents, last = (int(key) if key.isdigit() else key for key in path.split("."))
    inner: Any = copied
    for key in parents:
        inner = inner[key]
    inner[last] = value
    return copied
