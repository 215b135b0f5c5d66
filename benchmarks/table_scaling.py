"""Time and memory of a model of a table as its rows and columns grow.

`python -m benchmarks table-scaling` trains on tables of mixed types of a growing size, each in a
process of its own, and scores 10,000 new rows. Finished sizes are kept, so the same command
continues an interrupted run.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from fdsm import TableModel
from fdsm.atomic_io import replace_file
from paper.report import Line, Panel
from paper.report.plots import plot_panels, svg_file

from .outliers.summary import Section
from .process_costs import ProcessCosts, in_new_process
from .records.machine import describe_machine

RESULTS = Path(__file__).parent / "results" / "table_scaling"
ROWS, COLUMNS = (1000, 10_000, 100_000, 300_000, 1_000_000), (5, 10, 30, 100)
COLUMNS_OF_ROWS, ROWS_OF_COLUMNS = 30, 10_000
"""The number of columns while the rows grow, and of rows while the columns grow."""
NEW_ROWS = 10_000
MISSING = 0.01

INTRODUCTION = """# Time and memory as a table grows

Written by `python -m benchmarks table-scaling`. One column in five is a category, one in ten is a
date, and 1 % of the cells are missing. Scoring: 10,000 new rows. Seconds are CPU time. Memory is
the peak of the process; before: with libraries and table.
"""

Record = dict[str, Any]


def draw(rows: int, columns: int, seed: int) -> pa.Table:
    """Return a table of mixed types whose columns depend on three hidden numbers.

    Args:
        rows: Number of rows.
        columns: Number of columns.
        seed: Random seed. The relations between the columns are the same for all seeds.

    Returns:
        The table.
    """
    random = np.random.default_rng(seed)
    loadings = np.random.default_rng(0).normal(size=(3, columns))
    hidden = random.normal(size=(rows, 3))
    cells: dict[str, pa.Array] = {}
    for j in range(columns):
        x = hidden @ loadings[:, j] + 0.3 * random.normal(size=rows)
        missing = random.random(rows) < MISSING
        if j % 5 == 1:
            levels = np.array(["low", "below", "middle", "above", "high"])
            column = levels[np.digitize(x, [-2, -1, 1, 2])]
        elif j % 10 == 8:
            column = np.datetime64("2020-01-01") + np.round(200 * x).astype("timedelta64[D]")
        else:
            column = np.round(x, 3)
        cells[f"c{j}"] = pa.array(column, mask=missing)
    return pa.table(cells)


def measure(rows: int, columns: int) -> Record:
    """Train on a table, score new rows, and return the costs. Call it in a new process."""
    torch.set_num_threads(1)
    train, new = draw(rows, columns, 1), draw(NEW_ROWS, columns, 2)
    begun = ProcessCosts.now()
    model = TableModel.fit(train)
    fitted = ProcessCosts.now()
    model.score(new)
    done = ProcessCosts.now()
    return {
        "rows": rows,
        "columns": columns,
        "fit_seconds": round(fitted.cpu_seconds - begun.cpu_seconds, 2),
        "score_seconds": round(done.cpu_seconds - fitted.cpu_seconds, 2),
        "bytes_before": begun.peak_bytes,
        "fit_bytes": fitted.peak_bytes,
        "score_bytes": done.peak_bytes,
        "machine": describe_machine(),
    }


def panels(records: Sequence[Record]) -> list[Panel]:
    """Return seconds and memory against rows and against columns."""
    parts = {"seconds": "CPU seconds", "bytes": "peak memory in GB"}
    fixed = {"rows": ("columns", COLUMNS_OF_ROWS), "columns": ("rows", ROWS_OF_COLUMNS)}
    made = []
    for size, (other, value) in fixed.items():
        some = sorted((r for r in records if r[other] == value), key=lambda r: r[size])
        x = tuple(float(record[size]) for record in some)
        for part, title in parts.items():
            unit = 2**30 if part == "bytes" else 1
            lines = [
                Line(name, x, tuple(record[f"{key}_{part}"] / unit for record in some))
                for key, name in (("fit", "training"), ("score", "scoring 10,000 rows"))
            ]
            title_of_panel = f"{title} against {size}, {value:,} {other}"
            made.append(Panel(title_of_panel, size, title, tuple(lines), x_log=True, y_log=True))
    return made


def summarize(records: Sequence[Record]) -> Section:
    """Return one row for each size."""
    rows = [
        [
            f"{record['rows']:,}",
            str(record["columns"]),
            f"{record['fit_seconds']:,.1f}",
            f"{record['score_seconds']:,.1f}",
            *(
                f"{record[key] / 2**30:.2f}"
                for key in ("bytes_before", "fit_bytes", "score_bytes")
            ),
        ]
        for record in records
    ]
    header = ["rows", "columns", "fit s", "score s", "GB before", "GB after fit", "GB after score"]
    return Section("Sizes", header, rows)


def main(arguments: list[str] | None = None) -> None:
    """Measure all sizes, and write the results and the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks table-scaling")
    parser.add_argument("--rows", nargs="*", type=int, default=ROWS)
    parser.add_argument("--columns", nargs="*", type=int, default=COLUMNS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "sizes.json"
    records: list[Record] = json.loads(path.read_text("utf8")) if path.exists() else []
    sizes = [(rows, COLUMNS_OF_ROWS) for rows in options.rows]
    sizes += [(ROWS_OF_COLUMNS, columns) for columns in options.columns]
    for rows, columns in sizes:
        if (rows, columns) in {(record["rows"], record["columns"]) for record in records}:
            continue
        record = in_new_process(measure, rows, columns)
        records = sorted([*records, record], key=lambda size: (size["columns"], size["rows"]))
        with replace_file(path) as draft:
            draft.write_text(json.dumps(records, indent=1) + "\n", encoding="utf8")
        print(f"{rows:,} rows, {columns} columns: {record['fit_seconds']} s", flush=True)
    parts = [INTRODUCTION, summarize(records).markdown() + "\n"]
    for plot in plot_panels(panels(records)):
        name = plot.title.split(",")[0].lower().replace(" ", "-") + ".svg"
        with replace_file(options.out / name) as draft:
            draft.write_text(svg_file(plot.figure, plot.title), encoding="utf8")
        parts.append(f"![{plot.title}]({name})\n")
    with replace_file(options.out / "README.md") as draft:
        draft.write_text("\n".join(parts), encoding="utf8")
