"""False discoveries of `flagged`, simulated: `python -m benchmarks false-discoveries`.

A model is trained on rows of a known distribution. New rows have the same distribution, and some
of them get an error in one numeric cell. Of the rows that the procedure of Benjamini and Hochberg
flags at level 0.1, the share without an error is the false discovery proportion. Its mean over
models and sets of new rows, the false discovery rate, should be at most 0.1.

Finished fits are kept, so the same command continues an interrupted run. Several processes may
share a folder if they run different distributions (`--only`).
"""

import argparse
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import fdsm
from fdsm.atomic_io import replace_file
from fdsm.tables.outliers import benjamini_hochberg

RESULTS = Path(__file__).parents[1] / "results" / "false_discoveries"
LEVEL = 0.1
SETS = 20
"""Number of sets of new rows that are scored by one model, of each composition."""
COMPOSITIONS = ((95, 5), (45, 5), (80, 20))
"""Numbers of rows without and with an error."""
SHARES = (0.01, 0.05, 0.2)

Draw = Callable[[np.random.Generator, int], pd.DataFrame]


def columns(draw: Callable[[np.random.Generator, tuple[int, int]], Any], d: int) -> Draw:
    """Return a distribution of independent numeric columns."""
    return lambda random, n: pd.DataFrame(draw(random, (n, d))).add_prefix("x")


def clusters(random: np.random.Generator, n: int) -> pd.DataFrame:
    """Return rows of three clusters of different size and width."""
    center = np.array([[0, 0, 0, 0, 0], [8, 8, 0, 0, 0], [-8, 0, 8, 4, 0]], float)
    kind = random.choice(3, n, p=[0.6, 0.3, 0.1])
    noise = random.normal(size=(n, 5)) * np.array([1.0, 0.5, 2.0])[kind, None]
    return pd.DataFrame(center[kind] + noise).add_prefix("x")


def mixed(random: np.random.Generator, n: int) -> pd.DataFrame:
    """Return a number, a heavy-tailed amount, a count, a category and a yes or no."""
    kind = random.choice(4, n, p=[0.5, 0.3, 0.15, 0.05])
    return pd.DataFrame({
        "length": random.normal(kind, 1.0),
        "amount": random.lognormal(0.5 * kind, 1.0).round(2),
        "count": random.poisson(2.0 + kind),
        "kind": np.array(["a", "b", "c", "d"])[kind],
        "member": random.random(n) < 0.3,
    })


def with_gaps(draw: Draw, share: float = 0.2) -> Draw:
    """Return a distribution with cells missing at random."""

    def gaps(random: np.random.Generator, n: int) -> pd.DataFrame:
        rows = draw(random, n)
        return rows.mask(random.random(rows.shape) < share)

    return gaps


def with_errors(
    rows: pd.DataFrame, many: pd.DataFrame, random: np.random.Generator
) -> pd.DataFrame:
    """Return rows with an error in one numeric cell: a shift by one to three times the range.

    Args:
        rows: Rows of the distribution.
        many: Other rows, for the range from the 0.5 % to the 99.5 % quantile of each column.
        random: Random number generator.

    Returns:
        The rows with errors.
    """
    numeric = [name for name in rows if many[name].dtype.kind in "fi"]
    low, high = (many[numeric].quantile(q) for q in (0.005, 0.995))
    result = rows.astype(dict.fromkeys(numeric, float))
    for i in range(len(rows)):
        present = [name for name in numeric if not pd.isna(result.at[i, name])] or numeric
        name = present[random.integers(len(present))]
        value = 0.0 if pd.isna(result.at[i, name]) else result.at[i, name]
        shift = random.choice([-1, 1]) * random.uniform(1, 3) * (high[name] - low[name])
        result.at[i, name] = value + (np.round(shift) if many[name].dtype.kind == "i" else shift)
    return result


def training_errors(share: float) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return a function that plants errors in a share of the rows of a table."""

    def change(rows: pd.DataFrame) -> pd.DataFrame:
        count = round(share * len(rows))
        wrong = with_errors(rows[:count], rows, np.random.default_rng(len(rows)))
        return pd.concat([wrong, rows[count:]], ignore_index=True)

    return change


def each_times(count: int) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return a function that repeats all rows of a table."""
    return lambda rows: pd.concat([rows] * count, ignore_index=True)


@dataclass(frozen=True)
class Case:
    """A distribution and a number of training rows.

    Attributes:
        draw: Draws rows.
        n: Number of training rows.
        change: Changes training rows, for example adds copies or errors.
    """

    draw: Draw
    n: int = 200
    change: Callable[[pd.DataFrame], pd.DataFrame] = lambda rows: rows


NORMAL = lambda random, size: random.normal(size=size)
T2 = lambda random, size: random.standard_t(2, size=size)
T3 = lambda random, size: random.standard_t(3, size=size)
LOGNORMAL = lambda random, size: random.lognormal(size=size)
CAUCHY = lambda random, size: random.standard_cauchy(size=size)
POISSON = lambda random, size: random.poisson(3.0, size=size)

CASES = {
    "normal": Case(columns(NORMAL, 5)),
    "t2": Case(columns(T2, 5)),
    "t3": Case(columns(T3, 5)),
    "lognormal": Case(columns(LOGNORMAL, 5)),
    "cauchy": Case(columns(CAUCHY, 5)),
    "poisson": Case(columns(POISSON, 5)),
    "mixed": Case(mixed),
    "clusters": Case(clusters),
    "normal, 20 % missing": Case(with_gaps(columns(NORMAL, 5))),
    "t3, 20 % missing": Case(with_gaps(columns(T3, 5))),
    "mixed, 20 % missing": Case(with_gaps(mixed)),
    "normal, every row three times": Case(columns(NORMAL, 5), change=each_times(3)),
    "normal, one column, every row twice": Case(columns(NORMAL, 1), change=each_times(2)),
    "t3, a fifth of the rows twice": Case(
        columns(T3, 5), change=lambda rows: pd.concat([rows, rows[:40]], ignore_index=True)
    ),
    **{
        f"{name}, n = {n:,}": Case(draw, n)
        for name, draw, sizes in (
            ("t2", columns(T2, 5), (60, 1000, 5000)),
            ("lognormal", columns(LOGNORMAL, 5), (60, 1000)),
            ("mixed, 20 % missing", with_gaps(mixed), (60,)),
        )
        for n in sizes
    },
    **{
        f"{name}, n = 2,000, {100 * share:g} % errors": Case(draw, 2000, training_errors(share))
        for name, draw in {
            "normal": columns(NORMAL, 5),
            "t2": columns(T2, 5),
            "lognormal": columns(LOGNORMAL, 5),
            "mixed": mixed,
        }.items()
        for share in (0.0, 0.01, 0.05)
    },
    **{
        f"{name}, d = {d}": Case(columns(draw, d))
        for name, draw in {"normal": NORMAL, "t2": T2, "cauchy": CAUCHY}.items()
        for d in (1, 50)
    },
}


def simulate(case: Case, seed: int, iterations: int | None = None) -> dict[str, float]:
    """Train a model, and return shares of small p-values and false discovery proportions.

    Args:
        case: The distribution.
        seed: Random seed.
        iterations: Number of training iterations. Default: that of the estimator.

    Returns:
        The results of one fit.
    """
    random = np.random.default_rng(seed)
    with warnings.catch_warnings(action="ignore"):
        model = fdsm.ScoreMatchingDensity(iterations=iterations, random_state=seed)
        model.fit(case.change(case.draw(random, case.n)))
    normal = case.draw(random, SETS * max(a for a, _ in COMPOSITIONS))
    errors = case.draw(random, SETS * max(b for _, b in COMPOSITIONS))
    errors = with_errors(errors, case.draw(random, 5000), random)
    p_normal, p_error = (torch.from_numpy(model.p_values(rows)) for rows in (normal, errors))
    p_normal, p_error = p_normal[~p_normal.isnan()], p_error[~p_error.isnan()]  # no cell known
    result = {f"p <= {share}": float((p_normal <= share).double().mean()) for share in SHARES}
    for a, b in COMPOSITIONS:
        sets = zip(p_normal.split(a), p_error.split(b), strict=False)
        flagged = [
            benjamini_hochberg(torch.cat(pair), LEVEL).split([len(part) for part in pair])
            for pair in sets
            if [len(part) for part in pair] == [a, b]
        ]
        false, true = (torch.stack([f[i].sum() for f in flagged]).double() for i in (0, 1))
        result[f"false discovery rate, {a} + {b}"] = float(
            (false / (false + true).clamp_min(1)).mean()
        )
        result[f"found, {a} + {b}"] = float(true.mean()) / b
    return result


def run(names: Sequence[str], fits: int, out: Path) -> None:
    """Run the missing fits of cases, and write them."""
    for name in names:
        path = out / f"{name}.json"
        results = json.loads(path.read_text(encoding="utf8")) if path.exists() else []
        for seed in range(len(results), fits):
            results.append(simulate(CASES[name], seed))
            with replace_file(path) as draft:
                draft.write_text(json.dumps(results, indent=0), encoding="utf8")
            print(f"{name}: fit {seed + 1} of {fits}", flush=True)


def table(names: Sequence[str], out: Path) -> Iterator[str]:
    """Yield the lines of a Markdown table of means and standard errors over the fits."""
    header: list[str] = []
    for name in names:
        path = out / f"{name}.json"
        if not path.exists():
            continue
        results: list[Mapping[str, float]] = json.loads(path.read_text(encoding="utf8"))
        values = np.array([list(result.values()) for result in results])
        if not header:
            header = ["rows", *results[0], "fits"]
            yield "| " + " | ".join(header) + " |"
            yield "|" + " --- |" * len(header)
        errors = values.std(0, ddof=1) / len(values) ** 0.5
        cells = [f"{m:.3f} ± {e:.3f}" for m, e in zip(values.mean(0), errors, strict=True)]
        yield "| " + " | ".join([name, *cells, str(len(values))]) + " |"


def main(arguments: list[str] | None = None) -> None:
    """Simulate the cases and write a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks false-discoveries")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), metavar="CASE")
    parser.add_argument("--fits", type=int, default=30, help="Number of models of each case.")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    run(options.only, options.fits, options.out)
    text = __doc__.split("\n\n")[1] + "\n\n" + "\n".join(table(list(CASES), options.out)) + "\n"
    with replace_file(options.out / "README.md") as draft:
        draft.write_text("# False discoveries, simulated\n\n" + text, encoding="utf8")
