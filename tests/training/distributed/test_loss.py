from typing import Any

import pytest
import torch

from fdsm import DSM, SSM, Autodiff, FiniteDifference
from fdsm.training.distributed import DistributedLoss

from .gradient_cases import network
from .process_cases import STEPS


def test_own_loop_computes_what_one_process_computes(by_rank: dict[str, list[Any]]) -> None:
    model, objective = network("SSM", torch.float64), SSM(Autodiff())
    optimizer = torch.optim.Adam(model.parameters())
    for batches in ([0], [1], [2], [0, 1]):
        optimizer.zero_grad()
        for i in batches:
            objective.at(model, *STEPS[:, i]).mean().backward()
        optimizer.step()
    for weights in by_rank["own_loop"]:
        for actual, expected in zip(weights, model.parameters(), strict=True):
            assert (actual - expected).abs().max() < 1e-12


def test_generators_of_their_own_give_the_same_weights(by_rank: dict[str, list[Any]]) -> None:
    (first_loss, first), (second_loss, second) = by_rank["own_generators"]
    assert abs(first_loss - second_loss) > 1e-3, "of the same rows with other noise"
    assert all(map(torch.equal, first, second))


def test_mistakes_are_refused_in_all_processes(by_rank: dict[str, list[Any]]) -> None:
    for wrapped, sizes in by_rank["own_loop_refusals"]:
        assert "give the model itself" in wrapped
        assert "batches of 3 to 4 rows" in sizes


def test_gradients_that_are_not_averaged_are_noticed(by_rank: dict[str, list[Any]]) -> None:
    for message in by_rank["gradient_outside"]:
        assert "gradients differ between the processes" in message
        assert "DistributedLoss" in message


def test_a_compiled_step_does_not_leave_out_the_average(by_rank: dict[str, list[Any]]) -> None:
    model, objective = network("FD-SSM", torch.float64), SSM(FiniteDifference())
    optimizer = torch.optim.Adam(model.parameters())
    for i in (0, 0, 0, 1, 2):
        optimizer.zero_grad()
        objective.at(model, *STEPS[:, i]).mean().backward()
        optimizer.step()
    for (message,), weights in by_rank["compiled_step_of_wrapped"]:
        assert "runs eagerly: the loss calls DistributedDataParallel" in message
        for actual, expected in zip(weights, model.parameters(), strict=True):
            assert (actual - expected).abs().max() < 1e-9


def test_a_process_group_is_needed() -> None:
    model = network("DSM", torch.float64)
    with pytest.raises(ValueError, match="init_process_group"):
        DistributedLoss(DSM(0.1), model, torch.optim.Adam(model.parameters()))
