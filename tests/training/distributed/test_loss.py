from typing import Any

import pytest
import torch

from fdsm import DSM, SSM, Autodiff
from fdsm.training.distributed import DistributedLoss

from .gradient_cases import network
from .process_cases import EVEN


def test_own_loop_computes_what_one_process_computes(by_rank: dict[str, list[Any]]) -> None:
    model, generator = network("SSM", torch.float64), torch.Generator().manual_seed(0)
    optimizer, objective = torch.optim.Adam(model.parameters()), SSM(Autodiff())
    for batches in ([EVEN[0]], [EVEN[1]], [EVEN[2]], [EVEN[0], EVEN[1]]):
        optimizer.zero_grad()
        for x in batches:
            objective(model, x, generator=generator).mean().backward()
        optimizer.step()
    for weights in by_rank["own_loop"]:
        for found, expected in zip(weights, model.parameters(), strict=True):
            assert (found - expected).abs().max() < 1e-12


def test_mistakes_are_refused_in_all_processes(by_rank: dict[str, list[Any]]) -> None:
    for wrapped, sizes in by_rank["own_loop_refusals"]:
        assert "give the model itself" in wrapped
        assert "batches of 3 to 4 rows" in sizes


def test_a_process_group_is_needed() -> None:
    model = network("DSM", torch.float64)
    with pytest.raises(ValueError, match="init_process_group"):
        DistributedLoss(DSM(0.1), model, torch.optim.Adam(model.parameters()))
