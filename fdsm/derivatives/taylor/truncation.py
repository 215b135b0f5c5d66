"""Which coefficients of a power series are kept."""

from dataclasses import dataclass


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
        recording: Whether the series are to be differentiated by autograd, so that computing them
            without would lose something.
    """

    order: int
    directions: int = 1
    recording: bool = False

    def rows(self, degree: int) -> int:
        """Return how many coefficients a series up to a degree has."""
        return self.directions + degree if degree else 1

    def degree(self, rows: int) -> int:
        """Return the degree up to which there are so many coefficients."""
        return rows - self.directions if rows > 1 else 0

    def block(self, degree: int) -> slice:
        """Return where the coefficients of a degree are."""
        return slice(self.rows(degree - 1) if degree else 0, self.rows(degree))
