"""Gaps that are filled
====================

A fifth of the cells of a table are deleted. A model of the rest fills them, with the most likely
values or with draws that vary as much as the missing cells may. The deleted cells are the truth
that the page compares with.
"""

# %%
# The table
# ---------
# 569 tumors with ten measurements and a diagnosis. The model is trained on the table with gaps:
# there is no complete one.

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
from sklearn.datasets import load_breast_cancer
from sklearn.impute import KNNImputer
from sklearn.preprocessing import StandardScaler

from fdsm import TableModel

data = load_breast_cancer()
names = [str(name) for name in data.feature_names[:10]]
numbers, diagnosis = data.data[:, :10], data.target_names[data.target]
rng = np.random.default_rng(0)
is_gap = rng.random((len(numbers), 11)) < 0.2

columns = {name: pa.array(numbers[:, j], mask=is_gap[:, j]) for j, name in enumerate(names)}
table = pa.table(columns | {"diagnosis": pa.array(diagnosis, mask=is_gap[:, 10])})
model = TableModel.fit(table, iterations=200, seed=0)
filled = model.impute(table)
print(f"missing cells: {sum(c.null_count for c in table.columns)} before, "
      f"{sum(c.null_count for c in filled.columns)} after")  # fmt: skip

# %%
# The error
# ---------
# The root-mean-square error of the filled numbers, in standard deviations of their column. The
# mean of the column has an error of about 1.

gaps = is_gap[:, :10]
scale = StandardScaler().fit(numbers)
truth = scale.transform(numbers)
deleted = np.where(gaps, np.nan, truth)
by_model = scale.transform(np.stack([filled[name].to_numpy() for name in names], 1))
by_mean = np.where(gaps, np.nanmean(deleted, 0), truth)
by_knn = KNNImputer().fit_transform(deleted)
for title, cells in (("mean", by_mean), ("nearest neighbors", by_knn), ("model", by_model)):
    print(f"error of the {title}: {np.sqrt(np.mean((cells - truth)[gaps] ** 2)):.3f}")
right = np.array(filled["diagnosis"].to_pylist()) == diagnosis
print(f"diagnoses that are right: {right[is_gap[:, 10]].mean():.1%}")

# %%
# How sure is it?
# ---------------
# ``certainty`` is measured on training rows that were held out: the share of the variance that
# can be predicted. For the deleted cells the share that was achieved is known.

achieved = [
    1 - np.mean((by_model - truth)[gaps[:, j], j] ** 2) / truth[gaps[:, j], j].var()
    for j in range(10)
]
certainty = model.certainty()
for j in np.argsort(achieved)[::-1]:
    print(f"{names[j]}: {certainty[names[j]]:.2f} expected, {achieved[j]:.2f} achieved")

# %%
# Draws
# -----
# The most likely values are too similar to each other. Draws have the distribution of the column,
# and their spread says how far the truth may be away: 90 % of the deleted cells should be between
# the 5 % and the 95 % quantile of their draws.

draws = model.impute(table, draws=40, seed=0)
drawn = np.stack([[d[name].to_numpy() for name in names] for d in draws]).transpose(0, 2, 1)
low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
inside = ((low <= numbers) & (numbers <= high))[gaps]
print(f"deleted cells inside the interval of 90 %: {inside.mean():.1%}")
deviations = {"truth": truth, "most likely": by_model, "draws": scale.transform(drawn[0])}
for title, cells in deviations.items():
    print(f"standard deviation of the deleted cells, {title}: {cells[gaps].std():.2f}")

fig, axes = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
for ax, name in zip(axes, ("mean concavity", "mean texture"), strict=True):
    j = names.index(name)
    rows = np.flatnonzero(gaps[:, j])
    middle = np.array(filled[name].to_pylist())[rows]
    error = np.abs(np.stack([low[rows, j], high[rows, j]]) - middle)
    ax.errorbar(numbers[rows, j], middle, error, fmt=".", ms=5, lw=0.6, label="filled, 90 %")
    ends = [numbers[:, j].min(), numbers[:, j].max()]
    ax.plot(ends, ends, "k--", label="truth")
    ax.set(xlabel=f"{name}, deleted", ylabel="filled")
    ax.legend()
plt.show()
