"""Differential operators of log-densities, solutions of equations and vector fields.

Each takes a function of a batch, `(B, *E), *cond -> (B, *O)`, and returns one result per example.
The results are differentiable in the parameters of the function and in `x`.
"""

from .biharmonic import biharmonic
from .directional import directional_derivative, hvp, jet, jvp
from .partials import partials
from .second_order import divergence, hessian_diagonal, laplacian

__all__ = [
    "biharmonic",
    "directional_derivative",
    "divergence",
    "hessian_diagonal",
    "hvp",
    "jet",
    "jvp",
    "laplacian",
    "partials",
]
