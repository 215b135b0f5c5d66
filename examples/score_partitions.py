"""A table that outgrows one machine
=================================

Scoring is a function of rows, so an engine that you already use can distribute it. Here Dask
scores a folder of parquet files with one and with two workers. Only the false discovery rate looks
at all rows, and needs no more than their p-values. The page needs
``pip install 'dask[dataframe,distributed]'``.
"""

# %%
# One partition, and a folder
# ---------------------------
# Workers read the model from a folder, so only names travel. ``flagged`` depends on all rows and
# is left out of a partition.

import logging
import tempfile
import time
from pathlib import Path

import dask.dataframe as dd
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from dask.distributed import Client, LocalCluster

from fdsm.tables import TableModel
from fdsm.tables.outliers import benjamini_hochberg

COLUMNS, FILES, ROWS = 8, 8, 400


def score_partition(rows: pd.DataFrame, model: str) -> pd.DataFrame:
    """Return rows with their scores."""
    scored = TableModel.load(model).score(rows)
    columns = scored.columns().drop_columns("flagged").to_pandas().set_index(rows.index)
    return pd.concat([rows, columns], axis=1)


def score_folder(model: str, table: str, out: str, fdr: float = 0.1) -> float:
    """Score a folder of parquet files.

    Args:
        model: Folder of the model, which all workers can read.
        table: Folder of the files, or any address that Dask reads.
        out: Folder of the scored files.
        fdr: Largest expected share of normal rows among the flagged ones.

    Returns:
        The largest p-value of a flagged row, or 0 if no row is flagged.
    """
    rows = dd.read_parquet(table)
    meta = score_partition(rows.head(), model)
    rows.map_partitions(score_partition, model, meta=meta).to_parquet(out)
    p_value = dd.read_parquet(out)["p_value"].compute().to_numpy()
    flagged = benjamini_hochberg(torch.tensor(p_value), fdr).numpy()
    return float(p_value[flagged].max(initial=0.0))


# %%
# A model and a folder of files
# -----------------------------
# In each file four of 400 rows are outliers. Workers import this file, so everything that starts
# them, or should happen once, stands behind ``if __name__ == "__main__"``.

if __name__ == "__main__":
    random = np.random.default_rng(0)
    mixing = random.normal(size=(COLUMNS, COLUMNS))
    folder = tempfile.TemporaryDirectory()
    model, table, out = (str(Path(folder.name, name)) for name in ("model", "table", "out"))
    Path(table).mkdir()

    def normal_rows(count: int) -> pd.DataFrame:
        """Return rows with correlated columns."""
        values = random.normal(size=(count, COLUMNS)) @ mixing
        return pd.DataFrame(values, columns=[f"x{i}" for i in range(COLUMNS)])

    TableModel.fit(normal_rows(2000), iterations=200).save(model)
    for number in range(FILES):
        rows = normal_rows(ROWS)
        rows.iloc[:4] *= 10  # outliers
        rows.to_parquet(Path(table, f"{number:02}.parquet"))

# %%
# One and two workers
# -------------------
# Each worker first scores one partition, because it takes seconds to import torch. Two workers are
# faster only if a second core is free, and the more so the larger the table.

if __name__ == "__main__":
    rates = {}
    for name, workers in (("one worker", 1), ("two workers", 2)):
        cluster = LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None,
            silence_logs=logging.ERROR,
        )  # fmt: skip
        with cluster, Client(cluster) as client:
            client.run(score_partition, rows, model)
            start = time.perf_counter()
            limit = score_folder(model, table, out)
            rates[name] = FILES * ROWS / (time.perf_counter() - start)
        print(f"{name}: {rates[name]:,.0f} rows per second")

# %%
# The scores do not depend on the workers: they are those of the whole table in one process.

if __name__ == "__main__":
    scored = dd.read_parquet(out).compute()
    whole = TableModel.load(model).score(pd.read_parquet(table))
    difference = np.abs(scored.score / whole.score - 1).max()
    flagged = scored[scored.p_value <= limit]
    planted = np.arange(len(scored)) % ROWS < 4
    print(f"largest relative difference to the scores of one process: {difference:.0e}")
    print(f"flagged: {len(flagged)} of {len(scored):,} rows; in one process {whole.flagged.sum()}")
    print(
        f"planted outliers among them: {planted[scored.p_value <= limit].sum()} of {planted.sum()}"
    )
    print(f"the most unusual row: {flagged.sort_values('score').reasons.iloc[-1]}")

    fig, ax = plt.subplots(figsize=(4.5, 3.6), layout="constrained")
    ax.bar(list(rates), list(rates.values()), width=0.6)
    ax.set(ylabel="rows per second")
    plt.show()
    folder.cleanup()
