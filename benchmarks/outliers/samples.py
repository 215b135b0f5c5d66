"""The classifier test for samples: can a random forest separate them from held-out rows?"""

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score

from .tables import Array, column_scales

MOST_ROWS = 1000


def classifier_auc(rows: Array, samples: Array, seed: int) -> float:
    """Return the AUC of a random forest that separates two sets of rows; 0.5 is perfect.

    The forest has 200 trees. The AUC is the mean over five folds of a cross-validation.

    Args:
        rows: Held-out rows of the data, shape `(N, D)`.
        samples: Samples of a model, shape `(N, D)`.
        seed: Random seed of the forest and of the folds.

    Returns:
        The AUC.
    """
    both = (np.concatenate([rows, samples]) - rows.mean(0)) / column_scales(rows)
    label = np.repeat([0, 1], [len(rows), len(samples)])
    forest = RandomForestClassifier(n_estimators=200, random_state=seed)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    return float(cross_val_score(forest, both, label, scoring="roc_auc", cv=folds).mean())


def round_like(train: Array, samples: Array) -> Array:
    """Round samples to the values that the columns of the training rows can have.

    If the values of a column repeat, so that there are at most half as many as rows, its samples
    become the nearest of them. If all are integers, its samples become integers. This is done for
    every method, so that a forest does not recognize samples by their decimals alone.

    Args:
        train: Training rows, shape `(N, D)`.
        samples: Samples, shape `(M, D)`.

    Returns:
        The rounded samples.
    """
    rounded = samples.copy()
    for j, column in enumerate(train.T):
        values = np.unique(column)
        if len(values) <= len(train) / 2:
            middles = (values[1:] + values[:-1]) / 2
            rounded[:, j] = values[np.searchsorted(middles, samples[:, j])]
        elif (values == np.round(values)).all():
            rounded[:, j] = np.round(samples[:, j])
    return rounded


def choose_rows(rows: Array, seed: int) -> Array:
    """Return all rows, or a random thousand of them if there are more."""
    if len(rows) <= MOST_ROWS:
        return rows
    return rows[np.random.default_rng(seed).choice(len(rows), MOST_ROWS, replace=False)]
