from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fdsm import DSM, SSM, SlicedDSM, Taylor
from fdsm.objectives import MultiscaleDSM
from fdsm.training import Update, objective_loss
from fdsm.training.distributed.checks import NotShardable, require_shardable
from fdsm.typing import Objective

from .gradient_cases import network

Loss = Callable[[Tensor, torch.Generator, float], Tensor]
ROWS = torch.randn(20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def check(loss: Loss, rows: Tensor = ROWS) -> None:
    model = network("DSM", torch.float64)
    update = Update(loss, model, torch.optim.SGD(model.parameters(), 0.1))
    generator = torch.Generator().manual_seed(0)
    before = generator.get_state(), torch.get_rng_state()
    try:
        require_shardable(update, rows, generator)
    finally:
        assert torch.equal(generator.get_state(), before[0])
        assert torch.equal(torch.get_rng_state(), before[1])


@pytest.mark.parametrize(
    "objective",
    [
        DSM(0.1),
        SSM(Taylor(), directions=4),
        MultiscaleDSM(SlicedDSM(0.1, Taylor(), directions=3)),
    ],
)
@pytest.mark.parametrize("rows", [1, 2, 20])
def test_objectives_can_be_divided(objective: Objective, rows: int) -> None:
    check(objective_loss(objective, network("DSM", torch.float64)), ROWS[:rows])


def test_a_loss_of_the_whole_batch_is_refused() -> None:
    with pytest.raises(NotShardable, match=r"11 rows has shape \(\) and not one value per row"):
        check(lambda x, generator, progress: x.sum())
    with pytest.raises(NotShardable, match=r"shape \(6,\)"):
        check(lambda x, generator, progress: x.chunk(2)[0].sum(1))


@pytest.mark.parametrize(
    "loss",
    [
        lambda x, generator, progress: (x - x.mean(0)).sum(1),
        lambda x, generator, progress: nn.functional.dropout(x).sum(1),
        lambda x, generator, progress: x[torch.randperm(len(x), generator=generator)].sum(1),
        lambda x, generator, progress: x[:, 0] + torch.empty(len(x)).normal_(generator=generator),
    ],
    ids=["mean of the batch", "dropout", "permutation", "in-place draw"],
)
def test_dependence_on_other_rows_is_refused(loss: Loss) -> None:
    with pytest.raises(NotShardable, match="depends on the other rows"):
        check(loss)


def test_gradients_that_are_not_averaged_are_noticed(by_rank: dict[str, list[Any]]) -> None:
    for message in by_rank["gradient_outside"]:
        assert "gradients differ between the processes" in message
        assert "DistributedLoss" in message
