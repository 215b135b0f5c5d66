"""Shares of missing cells, from the types of the columns in `config.json`."""

import math
from collections.abc import Mapping
from typing import Any

from paper.report.records import real, text


def missing_shares(config: Mapping[str, Any]) -> dict[str, float]:
    """Return the share of missing cells of each column of the training data.

    Args:
        config: Content of `config.json`.

    Returns:
        The shares by name of the column. Empty if the file does not have them.

    Example:
        >>> columns = [{"name": "id"}, {"name": "note", "missing": 3}]
        >>> recipe = {"data": {"schema": {"columns": columns}}}
        >>> missing_shares({"data": {"rows": {"train": 10, "test": 2}}, "recipe": recipe})
        {'id': 0.0, 'note': 0.25}
    """
    try:
        data, columns = config["data"], config["recipe"]["data"]["schema"]["columns"]
        rows = sum(map(real, data["rows"].values())) + real(data.get("dropped_rows", 0))
        counts = {text(column["name"]): real(column.get("missing", 0)) for column in columns}
    except (LookupError, TypeError, AttributeError):
        return {}
    shares = {name: count / rows for name, count in counts.items() if rows > 0}
    return {name: share for name, share in shares.items() if not math.isnan(share)}
