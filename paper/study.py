"""Studies: figures and theorems of the paper that are measured without a table of recipes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

from fdsm.evaluation import Measurement
from fdsm.samplers import Progress

from .report import Panel

if TYPE_CHECKING:
    from .run_store import RunStore


@dataclass(frozen=True)
class StudyResult:
    """The result of a study. It can be shown without any model.

    Attributes:
        numbers: Measurements by name.
        panels: Plots.
    """

    numbers: Mapping[str, Measurement] = field(default_factory=dict)
    panels: tuple[Panel, ...] = ()


class Study(Protocol):
    """The settings of a study, a frozen dataclass.

    A module of `paper.studies` defines `CPU`, a study that takes minutes on two cores, and
    `PAPER`, the same at the scale of the paper.

    Attributes:
        provenance: Source of the settings, for documentation. It is not recorded as a setting.
    """

    provenance: ClassVar[str]

    def run(self, store: "RunStore", seed: int, progress: Progress) -> StudyResult:
        """Run the study.

        Args:
            store: The runs of trained models.
            seed: Random seed.
            progress: Wraps the outer loop to show its progress.
        """
        ...
