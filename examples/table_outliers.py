"""Outliers in a table, with reasons
=================================

A model learns thirty measurements of benign tumors. Malignant ones, which it has never seen,
should be outliers. The page shows p-values, the flagged rows, the reasons, and the same model in a
pipeline of scikit-learn.
"""

# %%
# The table
# ---------
# Breast cancer in Wisconsin: 357 benign and 212 malignant tumors. The model sees 60 % of the
# benign ones. Any frame, array or file can take its place.

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import PowerTransformer

from fdsm import ScoreMatchingDensity, TableModel

data = load_breast_cancer()
tumors = pa.table(dict(zip(data.feature_names, data.data.T, strict=True)))
benign, malignant = (np.flatnonzero(data.target == kind) for kind in (1, 0))
train, normal = (
    tumors.take(rows) for rows in train_test_split(benign, test_size=0.4, random_state=0)
)
model = TableModel.fit(train, iterations=200, seed=0)
scored, of_normal = model.score(tumors.take(malignant)), model.score(normal)

labels = np.repeat([0, 1], [len(normal), len(malignant)])
auc = roc_auc_score(labels, np.hstack([of_normal.score, scored.score]))
print(f"AUC-ROC of malignant against benign: {auc:.3f}")
print(f"flagged malignant tumors: {scored.flagged.sum()} of {len(malignant)}")
print(f"flagged benign tumors:    {of_normal.flagged.sum()} of {len(normal)}")

# %%
# p-values
# --------
# Rows like the training rows have uniform p-values, so about 5 % of them are below 0.05. This
# holds for benign tumors that the model has not seen. Most malignant ones are near zero.

below = (of_normal.p_value < 0.05).mean()
print(f"benign tumors with a p-value below 0.05: {below:.1%}")

fig, ax = plt.subplots(figsize=(5.5, 3.8), layout="constrained")
both = [of_normal.p_value, scored.p_value]
weights = [np.full(len(p), 1 / len(p)) for p in both]
bins = np.linspace(0, 1, 21).tolist()
ax.hist(both, bins, weights=weights, label=["benign, held out", "malignant"])
ax.axhline(0.05, color="k", ls="--", label="uniform")
ax.set(xlabel="p-value", ylabel="share of the rows")
ax.legend()
plt.show()

# %%
# Reasons
# -------
# The columns that make the three most unusual tumors unusual, and the values expected there.

for row in scored.score.argsort()[::-1][:3]:
    reasons = [
        f"{r.column} is {r.value} (expected about {r.expected})" for r in scored.reasons[row]
    ]
    print(f"tumor {malignant[row]}, score {scored.score[row]:.1f}: {', '.join(reasons)}")

# %%
# A pipeline
# ----------
# ``ScoreMatchingDensity`` is the same model as an estimator. Its ``score`` is minus the loss of
# held-out rows, so a grid search needs no labels.

pipeline = Pipeline([
    ("symmetric", PowerTransformer()),
    ("density", ScoreMatchingDensity(random_state=0)),
])
search = GridSearchCV(pipeline, {"density__iterations": [10, 200]}, cv=2).fit(train)
print(f"best number of iterations: {search.best_params_['density__iterations']}")
decisions = [-search.decision_function(rows) for rows in (normal, tumors.take(malignant))]
print(f"AUC-ROC of the pipeline: {roc_auc_score(labels, np.hstack(decisions)):.3f}")
for name, decision in zip(("benign", "malignant"), decisions, strict=True):
    print(f"{name}: {(decision > 0).mean():.1%} of {len(decision)} are outliers at level 0.05")
