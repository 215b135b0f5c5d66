"""What a study is: a figure or a theorem of the paper, measured without a table of recipes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ..evaluation import Measurement
from ..report.figure import Graph, Line, Panel
from ..samplers import Progress

if TYPE_CHECKING:
    from .run_store import RunStore

__all__ = ["Findings", "Graph", "Line", "Panel", "Study"]


@dataclass(frozen=True)
class Findings:
    """What a study found: enough to draw and to tabulate, without a model.

    Attributes:
        numbers: What is said in a sentence or a table, by name.
        panels: What is drawn.
        graphs: Graphs that are drawn.
    """

    numbers: Mapping[str, Measurement] = field(default_factory=dict)
    panels: tuple[Panel, ...] = ()
    graphs: tuple[Graph, ...] = ()


class Study(Protocol):
    """Settings that decide some findings; a frozen dataclass.

    A module of this package that has a `STUDY`, for minutes on two cores, and a `PAPER`, at the
    scale of the paper, can be reproduced by its name.

    Attributes:
        title: What it shows, in a line.
        provenance: Where in the paper it is, and what was chosen where that leaves it open.
    """

    title: str
    provenance: str

    def measure(self, store: "RunStore", seed: int, progress: Progress) -> Findings:
        """Return what is found.

        Args:
            store: Where trained models are kept, for studies of such.
            seed: Decides everything random.
            progress: Watches a loop.
        """
        ...
