"""Find outliers with scikit-learn: a pipeline, a grid search, and reasons.

Run it with `python examples/estimator.py`. It needs `pip install 'fdsm[tables]'`.
The model learns thirty measurements of benign tumors. Malignant ones, which it has never seen,
should be outliers.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import PowerTransformer

from fdsm import ScoreMatchingDensity


def main() -> None:
    """Train for some seconds. Print the detection rate and the reasons of the clearest outlier."""
    data = load_breast_cancer()
    benign, malignant = data.data[data.target == 1], data.data[data.target == 0]
    train, normal = train_test_split(benign, test_size=0.4, random_state=0)

    pipeline = Pipeline([
        ("symmetric", PowerTransformer()),
        ("density", ScoreMatchingDensity(random_state=0)),
    ])
    # The score is minus the loss of held-out rows, so no labels are needed.
    search = GridSearchCV(pipeline, {"density__iterations": [10, 200]}, cv=2, n_jobs=1)
    search.fit(train)
    found = search.best_estimator_
    print(f"best number of iterations: {search.best_params_['density__iterations']}")

    decisions = [found.decision_function(rows) for rows in (normal, malignant)]
    labels = np.repeat([0, 1], [len(normal), len(malignant)])
    print(
        f"AUC-ROC of malignant against benign: {roc_auc_score(labels, -np.hstack(decisions)):.3f}"
    )
    for name, decision in zip(("benign", "malignant"), decisions, strict=True):
        print(f"{name}: {(decision < 0).mean():.1%} of {len(decision)} are outliers")

    density, worst = found["density"], malignant[[decisions[1].argmin()]]
    for reason in density.explain(found["symmetric"].transform(worst))[0]:
        print(
            f"{data.feature_names[int(reason.column)]}: {reason.value} standard deviations, ",
            end="",
        )
        print(f"expected about {reason.expected}")


if __name__ == "__main__":
    main()
