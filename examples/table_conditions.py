"""Samples on conditions
=====================

``sample(given=...)`` draws rows with a category or with numbers in an interval, also where the
table has few of them. The table is simulated, so the page can compare with many rows that satisfy
the condition.
"""

# %%
# The table
# ---------
# Flats: the rent depends on the size, the district and the year. The model sees 2,000 of them.

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fdsm import TableModel

DISTRICTS = np.array(["center", "north", "south", "harbor"])


def flats(rows: int, seed: int) -> pa.Table:
    """Return flats with rents."""
    rng = np.random.default_rng(seed)
    district = rng.choice(4, rows, p=[0.15, 0.4, 0.35, 0.1])
    size = rng.gamma(9, 8, rows) - 10 * (district == 0)
    year = rng.integers(1900, 2024, rows)
    per_meter = np.array([19, 11, 12, 15])[district] + 5 * ((year > 1990) | (year < 1918))
    rent = size * per_meter * np.exp(0.1 * rng.normal(size=rows))
    return pa.table({
        "district": DISTRICTS[district],
        "size": size.clip(12).round(1),
        "year": year,
        "rent": rent.clip(150).round(),
    })


table = flats(2000, seed=0)
model = TableModel.fit(table, numeric=["year"], iterations=200, seed=0)

# %%
# Two conditions
# --------------
# Conditions are written as texts, or as values and pairs of limits by column. They hold exactly.

given = ["district=harbor", "rent>1500"]
samples = model.sample(2000, given=given, seed=0)
print(samples.slice(0, 3).to_pylist())
print(f"districts: {set(samples['district'].to_pylist())}")
print(f"smallest rent: {min(samples['rent'].to_pylist())}")
again = model.sample(5, given={"district": "harbor", "rent": (1500, 2000)}, seed=0)
print(f"rents between 1,500 and 2,000: {again['rent'].to_pylist()}")


def satisfying(flats: pa.Table) -> pa.Table:
    """Return the rows that satisfy the conditions."""
    is_harbor = pc.equal(flats["district"], "harbor")
    return flats.filter(pc.and_(is_harbor, pc.greater(flats["rent"], 1500)))


seen, truth = satisfying(table), satisfying(flats(200_000, seed=1))
print(f"rows that satisfy both: {len(seen)} of the table, {len(truth)} of 200,000 others")

# %%
# Against the truth
# -----------------
# The other columns follow: large and expensive flats are new or very old. Without conditions they
# have another distribution.

unconditional = model.sample(2000, seed=0)
for name in ("size", "year", "rent"):
    means = [np.mean(t[name].to_numpy()) for t in (truth, samples, seen, unconditional)]
    print(
        f"mean {name}: {means[0]:.1f} in truth, {means[1]:.1f} in samples, {means[2]:.1f} in the "
        f"{len(seen)} rows of the table, {means[3]:.1f} without conditions"
    )
is_new = {
    title: np.mean((t["year"].to_numpy() > 1990) | (t["year"].to_numpy() < 1918))
    for title, t in (("truth", truth), ("samples", samples), ("all", unconditional))
}
for title, share in is_new.items():
    print(f"new or very old flats, {title}: {share:.1%}")

fig, axes = plt.subplots(1, 3, figsize=(9, 3.4), layout="constrained")
for ax, name in zip(axes, ("size", "year", "rent"), strict=True):
    bins = np.histogram_bin_edges(np.r_[truth[name].to_numpy(), table[name].to_numpy()], 20)
    ax.hist(truth[name].to_numpy(), bins, density=True, alpha=0.5, label="truth")
    for rows, title, color in ((samples, "samples", "C1"), (unconditional, "no condition", "k")):
        ax.hist(
            rows[name].to_numpy(),
            bins,
            density=True,
            histtype="step",
            color=color,
            ls="-" if rows is samples else "--",
            label=title,
        )
    ax.set(xlabel=name, yticks=[])
axes[0].legend()
plt.show()

# %%
# How different are they?
# -----------------------
# Each cell of a sample is drawn from training rows that are similar in the other cells, so its
# values occur in the table, and their combinations mostly do not.

known = set(zip(*(seen[name].to_pylist() for name in ("size", "year", "rent")), strict=True))
drawn = list(zip(*(samples[name].to_pylist() for name in ("size", "year", "rent")), strict=True))
print(f"samples that are rows of the table: {np.mean([row in known for row in drawn]):.1%}")
