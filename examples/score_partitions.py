"""Score a table that outgrows one machine: a folder of parquet files, with Dask.

Scoring is a function of rows, so an engine that you already use can distribute it. Only the false
discovery rate looks at all rows, and needs no more than their p-values.

Run it with `python examples/score_partitions.py`. It needs
`pip install 'fdsm[tables]' 'dask[dataframe,distributed]'`. It trains a small model, and scores
eight files of 5,000 rows with one and with two worker processes.
"""

import tempfile
import time
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
import torch
from dask.distributed import Client, LocalCluster

from fdsm.tables import TableModel
from fdsm.tables.outliers import benjamini_hochberg

COLUMNS, FILES, ROWS = 8, 8, 5000


def score_partition(rows: pd.DataFrame, model: str) -> pd.DataFrame:
    """Return rows with their scores. `flagged` depends on all rows and is left out."""
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


def main() -> None:
    """Print the flagged rows, and the rows per second of one and of two workers."""
    random = np.random.default_rng(0)
    mixing = random.normal(size=(COLUMNS, COLUMNS))

    def normal_rows(count: int) -> pd.DataFrame:
        values = random.normal(size=(count, COLUMNS)) @ mixing
        return pd.DataFrame(values, columns=[f"x{i}" for i in range(COLUMNS)])

    with tempfile.TemporaryDirectory() as folder:
        model, table, out = (str(Path(folder, name)) for name in ("model", "table", "out"))
        TableModel.fit(normal_rows(2000), iterations=300).save(model)
        Path(table).mkdir()
        for number in range(FILES):
            rows = normal_rows(ROWS)
            rows.iloc[:50] *= 10  # outliers
            rows.to_parquet(Path(table, f"{number:02}.parquet"))
        for workers in (1, 2):
            with (
                LocalCluster(n_workers=workers, threads_per_worker=1) as cluster,
                Client(cluster),
            ):
                score_folder(model, str(Path(table, "00.parquet")), out)  # start the workers
                start = time.perf_counter()
                limit = score_folder(model, table, out)
                seconds = time.perf_counter() - start
            print(f"{workers} workers: {FILES * ROWS / seconds:,.0f} rows per second")
        scored = dd.read_parquet(out).compute()
        flagged = scored[scored.p_value <= limit].sort_values("score", ascending=False)
        print(f"{len(flagged)} of {len(scored):,} rows are flagged. The most unusual one:")
        print(flagged.reasons.iloc[0])


if __name__ == "__main__":
    main()
