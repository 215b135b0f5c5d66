"""The model of a table and the estimator in use. Read by type checkers and not run."""

from pathlib import Path
from typing import assert_type

import numpy as np
import numpy.typing as npt
import pandas as pd

import fdsm
from fdsm import ScoreMatchingDensity, TableModel
from fdsm.tables import DataError, Reason, ScoredTable, choose_objective


def use_table_model(path: Path, frame: pd.DataFrame) -> TableModel:
    """Train on a file, a frame and an array. Score, explain, sample, save and load."""
    try:
        model = TableModel.fit(path, ignore=["id"], objective=choose_objective("ssm", "taylor"))
    except DataError:
        model = TableModel.fit(frame)
    assert_type(model, TableModel)
    assert_type(fdsm.TableModel.fit(np.zeros((9, 2)), iterations=50, seed=1), TableModel)
    scored = model.score("new.csv", fdr=0.05)
    assert_type(scored, ScoredTable)
    assert_type(scored.score, npt.NDArray[np.float64])
    assert_type(scored.flagged, npt.NDArray[np.bool_])
    assert_type(model.explain(frame), list[list[Reason]])
    names: list[str] = model.sample(10).column_names
    model.save(str(path.with_name(names[0])))
    return TableModel.load(path, device="cpu")


def use_estimator(X: npt.NDArray[np.float64]) -> ScoreMatchingDensity:
    """Fit and predict as with other detectors of scikit-learn."""
    detector = ScoreMatchingDensity(iterations=100, random_state=0, categorical=["kind", 3]).fit(X)
    assert_type(detector, ScoreMatchingDensity)
    assert_type(detector.predict(X), npt.NDArray[np.int64])
    assert_type(detector.p_values([[1.0, 2.0]]), npt.NDArray[np.float64])
    assert_type(detector.score(X), float)
    assert_type(detector.explain(X)[0][0], Reason)
    return detector
