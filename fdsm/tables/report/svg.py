"""Figures as SVG elements of a page.

Figures are drawn without pyplot, and the same data give the same bytes. Colors are drawn with
placeholders that the page replaces by variables of its style sheet, so that a figure works on a
light and on a dark background. Text stays text.
"""

import io
import re
import warnings
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from ...extras import name_missing_extra

with name_missing_extra("a report"):
    from matplotlib import rc_context
    from matplotlib.figure import Figure

DATA, NEW = "#2c42b3", "#c47706"
"""Colors of the data, and of samples or new rows. The page has others on a dark background."""

INK, RULE = "#123456", "#abcdef"
"""Placeholders for the colors of text and rules."""

VARIABLES = {DATA: "var(--data)", NEW: "var(--new)", INK: "var(--ink)", RULE: "var(--rule)"}

STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": RULE,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.unicode_minus": True,
    "font.size": 9,
    "grid.color": RULE,
    "grid.linewidth": 0.5,
    "svg.fonttype": "none",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": RULE,
    "xtick.labelcolor": INK,
    "ytick.color": RULE,
    "ytick.labelcolor": INK,
}


@dataclass(frozen=True)
class Plot:
    """A figure with its title and caption.

    Attributes:
        title: Title of the figure.
        caption: How to read it.
        figure: The matplotlib figure.
    """

    title: str
    caption: str
    figure: Figure


def page_style() -> AbstractContextManager[None]:
    """Return a context in which figures have the style of the page."""
    return rc_context(STYLE)


def svg_element(figure: Figure, salt: str) -> str:
    """Return a figure as an SVG element for an HTML page.

    Args:
        figure: The figure.
        salt: A text that is unique on the page. Identifiers are derived from it.

    Returns:
        The element, without namespaces, sizes and unused identifiers.
    """
    file = io.StringIO()
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with rc_context({**STYLE, "svg.hashsalt": salt}), warnings.catch_warnings():
        # the font of the page draws the text, so missing glyphs in matplotlib's do not matter
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(file, format="svg", metadata=no_metadata, transparent=True)
    drawn = file.getvalue()
    drawn = re.sub(
        r'<svg [^>]*?(viewBox="[^"]*")[^>]*>',
        r'<svg \1 aria-hidden="true">',
        drawn[drawn.index("<svg") :],
        count=1,
    )
    drawn = re.sub(r'<g id="[^"]*"', "<g", drawn).replace("xlink:href", "href")
    for color, variable in VARIABLES.items():
        drawn = drawn.replace(color, variable)
    return drawn.strip()
