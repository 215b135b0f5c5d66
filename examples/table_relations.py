"""Relations between columns, and rows that break them
===================================================

In many tables some columns give others: a total is a product, a city has a country, a month
belongs to a date. A model finds such relations. A row that breaks one is unusual, and its reason
names the relation. Here the errors are planted, so the page can count how many are found.
"""

# %%
# The table
# ---------
# Orders with four relations. Any frame or file can take its place.

from collections import Counter

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa

from fdsm import TableModel

COUNTRY = {
    "Rome": "Italy",
    "Turin": "Italy",
    "Paris": "France",
    "Lyon": "France",
    "Oslo": "Norway",
}


def orders(rows: int, seed: int) -> dict[str, np.ndarray]:
    """Return columns of orders without errors."""
    rng = np.random.default_rng(seed)
    quantity, price = rng.integers(1, 20, rows), rng.gamma(4, 5, rows).round(2)
    ordered = np.datetime64("2024-01-01") + rng.integers(0, 700, rows).astype("timedelta64[D]")
    days, city = rng.integers(1, 9, rows), rng.choice(list(COUNTRY), rows)
    return {
        "city": city,
        "country": np.array([COUNTRY[name] for name in city]),
        "ordered": ordered,
        "month": ordered.astype("datetime64[M]").astype(int) % 12 + 1,
        "delivered": ordered + days.astype("timedelta64[D]"),
        "days": days,
        "quantity": quantity,
        "price": price,
        "total": (quantity * price).round(2),
    }


model = TableModel.fit(pa.table(orders(2000, seed=0)), iterations=200, seed=0)
for text in model.relations.describe(model.schema):
    print(text)

# %%
# Errors
# ------
# In 40 of 1,000 new rows one cell is wrong. Each wrong value is ordinary for its column: only the
# other cells contradict it.

new, rng = orders(1000, seed=1), np.random.default_rng(2)
planted = dict(enumerate(["country", "month", "days", "total"] * 10))
for row, column in planted.items():
    cells = new[column]
    new[column][row] = rng.choice(cells[cells != cells[row]])
scored = model.score(pa.table(new))

hits = scored.flagged[: len(planted)].sum()
print(f"planted errors that are flagged: {hits} of {len(planted)}")
print(f"other rows that are flagged: {scored.flagged[len(planted) :].sum()} of 960")

# %%
# Reasons
# -------
# If a total is wrong, it could as well be the quantity or the price. The last line says how often
# the first reason is the cell that was changed.

texts = scored.columns()["reasons"].to_pylist()
for row in range(4):
    print(f"wrong {planted[row]}. Reason: {texts[row]}")
named = Counter(
    column == scored.reasons[row][0].column
    for row, column in planted.items()
    if row in scored.reasons
)
print(f"reasons that begin with the wrong cell: {named[True]} of {named.total()}")

fig, ax = plt.subplots(figsize=(5.5, 3.8), layout="constrained")
bins = np.linspace(0, scored.score.max(), 40).tolist()
ax.hist(scored.score[len(planted) :], bins, label="rows in order")
ax.hist(scored.score[: len(planted)], bins, label="a relation is broken")
ax.set(xlabel="score", ylabel="number of rows", yscale="log")
ax.legend()
plt.show()

# %%
# Samples
# -------
# The relations hold in samples too.

sample = model.sample(1000, seed=0).to_pydict()
total = np.array(sample["quantity"]) * np.array(sample["price"])
exact = np.abs(total - np.array(sample["total"])) < 0.006
print(f"samples whose total is quantity times price: {exact.mean():.1%}")
right = [
    COUNTRY[city] == country
    for city, country in zip(sample["city"], sample["country"], strict=True)
]
print(f"samples whose city is in its country: {np.mean(right):.1%}")
days = (np.array(sample["delivered"]) - np.array(sample["ordered"])).astype("timedelta64[D]")
print(f"samples with the right number of days: {(days.astype(int) == sample['days']).mean():.1%}")
