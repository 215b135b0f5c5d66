r"""Eigenvalues, singular values and QR factors of real matrices, for any order.

The factors of $A$ start from those of its value and are refined by iterations that each make one
more degree exact. With $Q = Q_0 + …$ right up to degree $k - 1$, $S = Q^T Q - 1$ and
$T = Q^T A Q$ hold the errors of degree $k$, which $Q (1 + X)$ corrects if, up to degree $k$,

$$X + X^T = -S, \qquad T + X^T Λ_0 + Λ_0 X = Λ \text{ is diagonal.}$$

Reference:
    Ogita and Aishima (2018), Iterative refinement for symmetric eigenvalue decomposition, and
    (2020), Iterative refinement for singular value decomposition.
"""

from typing import Any

import torch
from torch import Tensor

from ..algebra import as_jet, without_value
from ..jet import Jet
from ..registry import MissingRule, rule


def _require_distinct(values: Tensor, what: str, *, positive: bool = False) -> None:
    """Check that sorted eigenvalues or singular values differ by more than rounding.

    Raises:
        torch.linalg.LinAlgError: If they coincide, or if one that must be positive vanishes.
    """
    values = values.detach()
    gaps = values.diff(dim=-1).abs()
    if positive:
        gaps = torch.cat([gaps, values[..., -1:]], -1)
    _require_larger(
        gaps,
        values.abs().amax(-1, keepdim=True),
        f"{what} of a matrix coincide{' or vanish' if positive else ''}",
    )


def _require_larger(values: Tensor, scale: Tensor, problem: str) -> None:
    """Check that values along the last dimension are larger than rounding errors.

    Raises:
        torch.linalg.LinAlgError: If they are not.
    """
    if torch.compiler.is_compiling():
        return
    rounding = 8 * (values.shape[-1] + 1) * torch.finfo(values.dtype).eps
    if (values <= rounding * scale).any():
        raise torch.linalg.LinAlgError(  # type: ignore[attr-defined]
            f"{problem} up to rounding, where Taylor cannot compute derivatives"
        )


def _without_diagonal(x: Tensor) -> Tensor:
    """Return matrices with zeros on the diagonal."""
    return x.tril(-1) + x.triu(1)


def _reciprocal_gaps(values: Tensor) -> Tensor:
    r"""Return $1 / (λ_j - λ_i)$, with zeros on the diagonal."""
    gaps = values[..., None, :] - values[..., :, None]
    diagonal = torch.eye(values.shape[-1], dtype=torch.bool, device=values.device)
    return gaps.masked_fill(diagonal, torch.inf).reciprocal()


@rule(torch.linalg.eigh)
def eigh(A: Jet, UPLO: str = "L") -> Any:
    r"""Return eigenvalues and eigenvectors of symmetric matrices, of which one triangle is used.

    The correction is $X_{ij} = (T - S Λ_0)_{ij} / (λ_j - λ_i)$ and $X_{ii} = -S_{ii} / 2$.
    """
    symmetric = A.tril() + A.tril(-1).mT if UPLO.upper() == "L" else A.triu() + A.triu(1).mT
    assert isinstance(symmetric, Jet)
    values, vectors = torch.linalg.eigh(symmetric.value)
    _require_distinct(values, "the eigenvalues")
    inverse = _reciprocal_gaps(values)
    eigenvalues: Tensor = as_jet(values, A)
    q: Tensor = as_jet(vectors, A)
    for _ in range(A.truncation.order):
        s = _error(q.mT @ q)
        t = q.mT @ symmetric @ q - s * values[..., None, :]
        eigenvalues = as_jet(values, A) + _error(t.diagonal(dim1=-2, dim2=-1))
        x = _without_diagonal(t) * inverse - torch.diag_embed(s.diagonal(dim1=-2, dim2=-1)) / 2
        q = q + q @ _error(x)
    return torch.return_types.linalg_eigh((eigenvalues, q))  # type: ignore[attr-defined]


def _error(x: Any) -> Tensor:
    """Return a series without its value, which is exact already."""
    return without_value(x)


@rule(torch.linalg.eigvalsh)
def eigvalsh(A: Jet, UPLO: str = "L") -> Tensor:
    """Return the eigenvalues of symmetric matrices, of which one triangle is used."""
    values: Tensor = eigh(A, UPLO).eigenvalues
    return values


@rule(torch.linalg.svd)
def svd(A: Jet, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """Return singular vectors and singular values.

    Raises:
        MissingRule: If the matrices are not square and `full_matrices` is true.
    """
    if full_matrices and A.shape[-1] != A.shape[-2]:
        raise MissingRule(
            "Taylor has no rule for `torch.linalg.svd` of matrices that are not square with "
            "full_matrices=True, which adds arbitrary vectors: use full_matrices=False or svdvals"
        )
    if A.shape[-2] < A.shape[-1]:
        v, s, u = _thin_svd(A.mT, driver)
    else:
        u, s, v = _thin_svd(A, driver)
    return torch.return_types.linalg_svd((u, s, v.mT))  # type: ignore[attr-defined]


@rule(torch.svd, Tensor.svd)
def svd_with_v(input: Jet, some: bool = True, compute_uv: bool = True) -> Any:
    """Return singular vectors and values, the vectors on the right as columns.

    Raises:
        MissingRule: If `compute_uv` is false.
    """
    if not compute_uv:
        raise MissingRule("Taylor has no rule for `torch.svd` with compute_uv=False: use svdvals")
    u, s, vh = svd(input, full_matrices=not some)
    return torch.return_types.svd((u, s, vh.mT))


def _thin_svd(a: Any, driver: str | None) -> tuple[Tensor, Tensor, Tensor]:
    r"""Return $U$, $σ$ and $V$ with $A = U Σ V^T$ for matrices with at least as many rows.

    The corrections are $U (1 + X) + Z$ and $V (1 + Y)$. With $S_U = U^T U - 1$,
    $S_V = V^T V - 1$, $T = U^T A V$, $a = T - S_U Σ$ and $b = T^T - S_V Σ$,

    $$X_{ij} = \frac{a_{ij} σ_j + b_{ij} σ_i}{σ_j² - σ_i²}, \quad
      Y_{ij} = \frac{a_{ij} σ_i + b_{ij} σ_j}{σ_j² - σ_i²}, \quad
      Z = (1 - U_0 U_0^T)(A V - U Σ) Σ_0^{-1}.$$
    """
    left, values, right = torch.linalg.svd(a.value, full_matrices=False, driver=driver)
    _require_distinct(values, "the singular values", positive=True)
    inverse = _reciprocal_gaps(values.square())
    row, column = values[..., None, :], values[..., :, None]
    s: Tensor = as_jet(values, a)
    u: Tensor = as_jet(left, a)
    v: Tensor = as_jet(right.mT, a)
    for _ in range(a.truncation.order):
        su, sv, av = _error(u.mT @ u), _error(v.mT @ v), a @ v
        t = u.mT @ av
        rest: Tensor = _error(av - u * s[..., None, :])
        z = (rest - left @ (left.mT @ rest)) / row
        first, second = t - su * row, t.mT - sv * row
        x = (_without_diagonal(first) * row + _without_diagonal(second) * column) * inverse
        y = (_without_diagonal(first) * column + _without_diagonal(second) * row) * inverse
        lengths = [e.diagonal(dim1=-2, dim2=-1) / 2 for e in (su, sv)]
        s = as_jet(values, a) + _error(t.diagonal(dim1=-2, dim2=-1) - sum(lengths) * values)
        u = u + u @ _error(x - torch.diag_embed(lengths[0])) + z
        v = v + v @ _error(y - torch.diag_embed(lengths[1]))
    return u, s, v


@rule(torch.linalg.svdvals)
def svdvals(A: Jet, *, driver: str | None = None) -> Tensor:
    """Return the singular values."""
    values: Tensor = svd(A, full_matrices=False, driver=driver).S
    return values


@rule(torch.linalg.qr)
def qr(A: Jet, mode: str = "reduced") -> Any:
    r"""Return $Q$ and $R$ with $A = Q R$.

    Let $R_0$ be the factor of the value as a constant, and $M = A R_0^{-1}$. If $C$ is the
    triangular factor of $M^T M = C^T C$, then $R = C R_0$ and $Q = M C^{-1}$.

    Raises:
        MissingRule: If `mode` is "complete" and there are more rows than columns.
    """
    m, n = A.shape[-2:]
    if mode == "complete" and m > n:
        raise MissingRule(
            "Taylor has no rule for `torch.linalg.qr` with more rows than columns and "
            'mode="complete", which adds arbitrary vectors: use mode="reduced"'
        )
    k = min(m, n)
    first = A[..., :k]
    assert isinstance(first, Jet)
    factor = torch.linalg.qr(first.value.detach(), mode="r").R
    diagonal = factor.diagonal(dim1=-2, dim2=-1).abs()
    _require_larger(diagonal, factor.norm(dim=-2), "the columns of a matrix are dependent")
    scaled = torch.linalg.solve_triangular(factor, first, upper=True, left=False)
    c = torch.linalg.cholesky(scaled.mT @ scaled).mT
    q = torch.linalg.solve_triangular(c, scaled, upper=True, left=False)
    r = c @ factor if m >= n else torch.cat([c @ factor, q.mT @ A[..., k:]], -1)
    return torch.return_types.linalg_qr((A.value.new_empty(0) if mode == "r" else q, r))  # type: ignore[attr-defined]
