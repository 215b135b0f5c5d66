"""Functions that join tensors or split them."""

import pytest
import torch

from fdsm.derivatives.taylor.rules import joining

from ..agreement import assert_rule, names_of_rules
from .tensor_cases import SHAPE, Rule, constant, parameters

C = constant
CASES: dict[str, tuple[Rule, ...]] = {
    "broadcast_tensors": (
        lambda x: torch.broadcast_tensors(x, C(5, 1, 1, 1), x[0, 0]),
        lambda x: torch.broadcast_tensors(C(4, 2, 1, 1), x[:, :1]),
    ),
    "chunk": (
        lambda x: x.chunk(2),
        lambda x: torch.chunk(x, 3, dim=-1),
        lambda x: x.chunk(chunks=2, dim=1),
    ),
    "unsafe_chunk": (lambda x: x.unsafe_chunk(2, 1),),
    "split": (
        lambda x: x.split(2, 2),
        lambda x: torch.split(x, [1, 3], dim=-1),
        lambda x: x.split((1, 2), 1),
        lambda x: x.split(split_size=1),
    ),
    "unsafe_split": (lambda x: x.unsafe_split(2, -1),),
    "split_with_sizes": (lambda x: x.split_with_sizes([1, 2], dim=1),),
    "unsafe_split_with_sizes": (lambda x: x.unsafe_split_with_sizes([1, 2], 1),),
    "tensor_split": (
        lambda x: x.tensor_split(3, dim=2),
        lambda x: torch.tensor_split(x, (1, 2), dim=-1),
        lambda x: x.tensor_split([1]),
        lambda x: torch.tensor_split(x, indices=(1,), dim=1),
        lambda x: torch.tensor_split(x, sections=2, dim=1),
    ),
    "hsplit": (lambda x: x.hsplit(3), lambda x: torch.hsplit(x[0, 0], [1])),
    "vsplit": (lambda x: x.vsplit(2), lambda x: torch.vsplit(x, [1])),
    "dsplit": (lambda x: x.dsplit(2), lambda x: torch.dsplit(x, (1, 2))),
    "unbind": (
        lambda x: x.unbind(),
        lambda x: torch.unbind(x, -1),
        lambda x: [row + 1 for row in x],
    ),
    "cat": (
        lambda x: torch.cat([x, x.sin()]),
        lambda x: torch.cat((C(2, 3, 1), x, x.exp()), -1),
        lambda x: torch.cat([x, C(2, 1, 4)], dim=1),
        lambda x: torch.cat([torch.empty(0), x, x.sin()], axis=2),
        lambda x: torch.cat([x, x[:, :0]], 1),
        lambda x: torch.cat(tensors=[x, C(2, 3, 4)]),
    ),
    "concat": (lambda x: torch.concat([x, x.sin()], dim=1),),
    "concatenate": (lambda x: torch.concatenate([x, x.sin()], axis=1),),
    "stack": (
        lambda x: torch.stack([x, x.sin()]),
        lambda x: torch.stack([C(2, 3, 4), x], -1),
        lambda x: torch.stack((x, C(2, 3, 4), x.sin()), dim=2),
    ),
    "atleast_1d": (
        lambda x: torch.atleast_1d(x[0, 0, 0]),
        lambda x: torch.atleast_1d(x[0], x[0, 0, 0]),
    ),
    "atleast_2d": (lambda x: torch.atleast_2d(x[0, 0]), lambda x: torch.atleast_2d([x, x[0, 0]])),
    "atleast_3d": (
        lambda x: torch.atleast_3d(x[0]),
        lambda x: torch.atleast_3d(x[0, 0], x[0, 0, 0], x),
    ),
    "vstack": (lambda x: torch.vstack([x, x.sin()]), lambda x: torch.vstack([x[0, 0], C(4)])),
    "row_stack": (lambda x: torch.row_stack([x[0, 0], C(4)]),),
    "hstack": (
        lambda x: torch.hstack([x, x.sin()]),
        lambda x: torch.hstack([x[0, 0], C(3), x[0, 0, 0]]),
    ),
    "dstack": (
        lambda x: torch.dstack([x, x.sin()]),
        lambda x: torch.dstack([x[0], C(3, 4)]),
        lambda x: torch.dstack([x[0, 0], C(4)]),
    ),
    "column_stack": (
        lambda x: torch.column_stack([x[0, :, 0], x[0], C(3)]),
        lambda x: torch.column_stack([x, x.sin()]),
    ),
    "block_diag": (
        lambda x: torch.block_diag(x[0], C(2, 2), x[1].sin()),
        lambda x: torch.block_diag(x[0, 0], x[0, 0, 0]),
    ),
    "meshgrid": (
        lambda x: torch.meshgrid(x[0, 0], C(3), x[0, :, 1].sin(), indexing="ij"),
        lambda x: torch.meshgrid([x[0, 0], C(3), x[0, :, 1].sin()], indexing="xy"),
        lambda x: torch.meshgrid(x[0, 0], indexing="xy"),
    ),
}


def test_every_rule_has_a_case() -> None:
    assert names_of_rules(joining) == set(CASES)


@pytest.mark.parametrize("f", parameters(CASES))
def test_agrees_with_autodiff(f: Rule) -> None:
    assert_rule(f, constant(*SHAPE))
