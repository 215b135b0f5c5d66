"""Tables in GitHub's Markdown, published numbers beside ours."""

from collections.abc import Sequence

from .captions import caption
from .format import number, typeset
from .labels import BYTES, MEMORY_RATIO, PACE, RATIO, title
from .model import Group
from .studies import Study
from .tables import Summary, summary


def markdown(groups: Sequence[Group], metrics: Sequence[str] | None = None) -> str:
    """Return a table of groups in Markdown.

    Args:
        groups: The groups, a row for each.
        metrics: Which numbers to show, by their names in `result.json`, in this order; times and
            memory bring their ratios. All that there are if it is not given.

    Returns:
        The table and its caption.

    Raises:
        LookupError: If there is no number of a name.
    """
    whole = summary(groups)
    titles = {column.key: column.title for column in whole.columns}
    keys = [key for key in titles if key != "parameters"]
    if metrics is not None:
        chosen = [key for name in metrics for key in _keys(whole, name)]
        keys = list(dict.fromkeys([*chosen, "seeds"]))
    header = ["method", *(titles[key] for key in keys)]
    rows = [[row.label, *(row.cells[key] for key in keys)] for row in whole.rows]
    return f"{pipes(header, rows)}\n\n{escaped(caption(groups, keys))}"


def markdown_study(study: Study) -> str:
    """Return the numbers of a study as a table in Markdown."""
    rows = [[title(name), number(one.value, one.error)] for name, one in study.numbers.items()]
    return pipes(["number", "value"], rows)


def pipes(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""Return a table in Markdown, all columns but the first to the right.

    Args:
        header: What to write above the columns.
        rows: The cells.

    Returns:
        The table.

    Example:
        >>> print(pipes(["method", "NLL"], [["FD-DSM*", "-1.5 ± 0.2"]]))
        | method | NLL |
        | :-- | --: |
        | FD-DSM\* | −1.5 ± 0.2 |
    """
    lines = [[escaped(one) for one in header], [":--", *["--:"] * (len(header) - 1)]]
    for label, *cells in rows:
        lines.append([escaped(label), *(escaped(typeset(text)) for text in cells)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escaped(text: str) -> str:
    """Return text so that Markdown shows it as it is."""
    for sign in "\\|*_<>`[]":
        text = text.replace(sign, f"\\{sign}")
    return text


def _keys(whole: Summary, metric: str) -> list[str]:
    ratios = {PACE: RATIO, BYTES: MEMORY_RATIO}
    wanted = [metric, f"metric {metric}", f"published {metric}"]
    if metric in ratios:
        wanted += [ratios[metric], f"published {ratios[metric]}"]
    shown = [column.key for column in whole.columns]
    found = [key for key in wanted if key in shown]
    if not found:
        there = ", ".join(key.removeprefix("metric ") for key in shown if key.startswith("metric"))
        raise LookupError(f"no number is called {metric!r}; there are {there}")
    return found
