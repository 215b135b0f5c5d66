from typing import Any

import pytest
import torch

from fdsm import Sphere
from fdsm.projections import draw_directions
from fdsm.sharding import Shard
from fdsm.training import Update
from fdsm.training.distributed import ShardedUpdate
from fdsm.training.distributed.world import SINGLE_PROCESS

from .gradient_cases import CASES, INNER, OBJECTIVES, STEPS, Steps, batches, network, three_steps

TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}


def largest_difference(found: Steps, expected: Steps) -> float:
    """Return the largest difference of losses, norms, gradients, weights and averages."""
    numbers = zip(found.losses + found.norms, expected.losses + expected.norms, strict=True)
    tensors = zip(
        found.gradients + found.weights + found.average,
        expected.gradients + expected.weights + expected.average,
        strict=True,
    )
    return max(
        *(abs(a - b) for a, b in numbers), *((a - b).abs().max().item() for a, b in tensors)
    )


@pytest.mark.parametrize(("name", "method", "dtype"), CASES)
def test_two_processes_compute_what_one_computes(
    by_rank: dict[str, list[Any]], name: str, method: str, dtype: torch.dtype
) -> None:
    expected = three_steps(name, dtype)
    assert len(expected.losses) == STEPS
    assert max(g.abs().max() for g in expected.gradients) > 1e-2
    for rank in range(2):
        found = by_rank["all_gradients"][rank][name, method, dtype]
        if method == "layers" and name in INNER:
            assert "takes gradients itself" in found
            assert "--fsdp root" in found
            continue
        assert largest_difference(found, expected) < TOLERANCE[dtype]
        assert torch.equal(found.random_state, expected.random_state)


def test_directions_differ_between_processes(by_rank: dict[str, list[Any]]) -> None:
    first, second = by_rank["directions"]
    generator = torch.Generator().manual_seed(0)
    whole = draw_directions(Sphere(), torch.zeros(5, 3), 2, generator)
    assert torch.equal(torch.cat([first, second], 1), whole)
    assert (first[:, :2] - second).abs().min() > 1e-4


def test_accumulating_in_one_process_gives_the_same_gradient() -> None:
    expected = three_steps("FD-SSM", torch.float64)
    model, generator = network("FD-SSM", torch.float64), torch.Generator().manual_seed(2)
    loss = lambda x, generator, progress: OBJECTIVES["FD-SSM"](model, x, generator=generator)
    update = Update(loss, model, torch.optim.SGD(model.parameters(), 1e-2), 1.0)
    parts = ShardedUpdate(update, SINGLE_PROCESS, Shard(0, 7, 7), accumulate=3)
    losses = [parts((x,), generator, 0.0)["loss"].item() for x in batches(torch.float64)]
    assert losses == pytest.approx(expected.losses, abs=1e-14)
    assert torch.equal(generator.get_state(), expected.random_state)
