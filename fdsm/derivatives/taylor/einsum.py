"""Rules of sums of products over any dimensions."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .jet import Jet, rule
from .products import bilinear


@rule("tensordot")
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Return the sums of products over pairs of dimensions."""
    if isinstance(dims, int):
        left, right = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        left, right = [d % a.ndim for d in dims[0]], [d % b.ndim for d in dims[1]]
    letters = iter("abcdefghijklmnopqrstuvwxy")
    first = [next(letters) for _ in range(a.ndim)]
    second = [next(letters) for _ in range(b.ndim)]
    for i, j in zip(left, right, strict=True):
        second[j] = first[i]
    kept = [letter for i, letter in enumerate(first) if i not in left]
    kept += [letter for j, letter in enumerate(second) if j not in right]
    return torch.einsum(f"{''.join(first)},{''.join(second)}->{''.join(kept)}", a, b)


@rule(functional.bilinear)
def bilinear_layer(
    input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    r"""Return $a^T W_k b$ for all $k$."""
    result = torch.einsum("...i,kij,...j->...k", input1, weight, input2)
    return result if bias is None else result + bias


@rule("einsum")
def einsum(equation: str, *operands: Any) -> Tensor:
    """Return sums of products by Einstein's convention; jets are multiplied two at a time."""
    factors = list(operands[0]) if isinstance(operands[0], (list, tuple)) else list(operands)
    left, _, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if "->" not in equation:
        letters = sorted(set(left) - {",", "."})
        right = ("..." if "..." in left else "") + "".join(
            x for x in letters if left.count(x) == 1
        )
    jets = [i for i, x in enumerate(factors) if isinstance(x, Jet)]
    while len(jets) > 2:
        first, second = jets[:2]
        others = [t for i, t in enumerate(terms) if i not in (first, second)] + [right]
        kept = "".join(
            x for x in dict.fromkeys(terms[first] + terms[second])
            if x != "." and any(x in other for other in others)
        )  # fmt: skip
        kept = ("..." if "..." in terms[first] + terms[second] else "") + kept
        pair = torch.einsum(
            f"{terms[first]},{terms[second]}->{kept}", factors[first], factors[second]
        )
        terms[first], factors[first] = kept, pair
        del terms[second], factors[second]
        jets = [i for i, x in enumerate(factors) if isinstance(x, Jet)]
    return _einsum_of_two(terms, right, factors, jets)


def _einsum_of_two(terms: list[str], right: str, factors: list[Tensor], jets: list[int]) -> Tensor:
    """Return the sums where at most two of the factors are jets."""
    first, second = jets[0], jets[-1]
    ndims = [x.ndim for x in factors]
    axis = next(x for x in "ZYXWVUTSRQPONMLKJIHGFEDCBA" if x not in "".join(terms))

    def product(a: Tensor, b: Tensor | None) -> Tensor:
        values = list(factors)
        values[first] = a
        if b is not None:
            values[second] = b
        stacked = [x.ndim > n for x, n in zip(values, ndims, strict=True)]
        left = [axis * more + term for more, term in zip(stacked, terms, strict=True)]
        return torch.einsum(f"{','.join(left)}->{axis * any(stacked)}{right}", *values)

    a, b = factors[first], factors[second]
    assert isinstance(a, Jet)
    assert isinstance(b, Jet)
    if first == second:
        return Jet(product(a.coefficients, None), a.truncation)
    return bilinear(product, a, b)
