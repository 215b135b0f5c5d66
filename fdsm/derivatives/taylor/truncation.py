"""Which coefficients of a power series are kept."""

from dataclasses import dataclass, field


@dataclass(eq=False)
class Run:
    """One propagation through a model; its jets have nothing to do with those of another.

    Attributes:
        recording: Whether autograd records it, so that what it does not record is lost.
        keeping: Whether what autograd would need for a backward pass is kept.
    """

    recording: bool = False
    keeping: bool = True


@dataclass(frozen=True)
class Truncation:
    r"""Power series of a given order along one direction, or of order two along several.

    $$a = a_0 + \sum_i a_{1i} t_i + a_2 s + …, \qquad t_i t_j = δ_{ij} s, \quad t_i s = 0$$

    Along one direction $s = t^2$ and these are Taylor series in $t$. Along several the curvatures
    have a common symbol, so that only their sum is computed: $1 + V + 1$ coefficients rather than
    $1 + 2V$. Coefficients are stacked by degree, and those of the highest degrees are left out
    where they vanish.

    Attributes:
        order: The highest degree that is kept.
        directions: How many directions, `V`; one if the order is above two.
        run: The propagation that the series belong to.
    """

    order: int
    directions: int = 1
    run: Run = field(default_factory=Run)

    def rows(self, degree: int) -> int:
        """Return how many coefficients a series up to a degree has."""
        return self.directions + degree if degree else 1

    def degree(self, rows: int) -> int:
        """Return the degree up to which there are so many coefficients."""
        return rows - self.directions if rows > 1 else 0

    def block(self, degree: int) -> slice:
        """Return where the coefficients of a degree are."""
        return slice(self.rows(degree - 1) if degree else 0, self.rows(degree))
