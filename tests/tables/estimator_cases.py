"""Data for the scikit-learn estimator, and a short training."""

import numpy as np
import pyarrow as pa

from fdsm import ScoreMatchingDensity

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

FACTOR = np.array([[10.0, 0.0, 0.0], [0.08, 0.06, 0.0], [-0.5, 0.5, 0.7]])
"""Columns of very different scales, with correlations 0.8 and -0.5."""


def gaussian(n: int, seed: int) -> Floats:
    """Return rows of a Gaussian."""
    return np.random.default_rng(seed).normal(size=(n, 3)) @ FACTOR.T


def small(**parameters: object) -> ScoreMatchingDensity:
    """Return an estimator with a short training."""
    return ScoreMatchingDensity(**({"iterations": 20, "random_state": 0} | parameters))


def machine_records(n: int = 400, seed: int = 0, gaps: float = 0.1) -> pa.Table:
    """Return a table: the load is twice the temperature, which depends on the kind."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    temperature = rng.normal(size=n) + np.select([kind == "b", kind == "c"], [3.0, 6.0])
    day = np.datetime64("2024-01-01", "s") + rng.integers(0, 86_400 * 365, n)
    missing = rng.random((2, n)) < gaps
    return pa.table({
        "temperature": pa.array(temperature, mask=missing[0]),
        "load": pa.array(2 * temperature + 0.3 * rng.normal(size=n), pa.float32()),
        "count": pa.array(rng.poisson(20, n), pa.int16()),
        "kind": pa.array(kind, mask=missing[1]).dictionary_encode(),
        "open": pa.array(rng.random(n) < 0.7),
        "day": pa.array(day, pa.timestamp("s")),
        "unit": pa.array(["kg"] * n),
        "id": pa.array([f"r{seed}-{i}" for i in range(n)]),
    })
