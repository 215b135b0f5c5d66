from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fdsm.sharding import Shard, ShardedDraws, new_rows, over_rows, positions
from fdsm.tensors import randn_like

G = torch.Generator
B = 7
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
SHARDS = [Shard.of(B, index, 3) for index in range(3)]


@pytest.mark.parametrize("total", [1, 2, 7, 12])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_shards_are_those_of_tensor_split(total: int, count: int) -> None:
    x = torch.arange(total)
    for index, rows in enumerate(torch.tensor_split(x, count)):
        assert torch.equal(Shard.of(total, index, count).take(x), rows)


def test_shards_are_split_into_shards_of_the_same_batch() -> None:
    parts = Shard(3, 8, 20).split(2)
    assert parts == [Shard(3, 6, 20), Shard(6, 8, 20)]


DRAWS: dict[str, Callable[[int, G], Tensor]] = {
    "randn": lambda n, g: torch.randn(n, 2, generator=g),
    "randn of a tuple": lambda n, g: torch.randn((n, 2), generator=g),
    "randn of size": lambda n, g: torch.randn(size=(n, 2), generator=g),
    "rand": lambda n, g: torch.rand(n, generator=g, dtype=torch.float64),
    "randint": lambda n, g: torch.randint(100, (n, 2), generator=g),
    "randint of low": lambda n, g: torch.randint(5, 100, (n,), generator=g),
    "normal": lambda n, g: torch.normal(1.0, 2.0, (n, 2), generator=g),
    "randn_like": lambda n, g: randn_like(torch.zeros(n, 2, 2), g),
    "rand_like": lambda n, g: torch.rand_like(torch.zeros(n, 2), generator=g),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())
def test_rows_are_those_of_the_whole_batch(draw: Callable[[int, G], Tensor]) -> None:
    generator = G().manual_seed(0)
    whole, parts = draw(B, generator), []
    for shard in SHARDS:
        mine = G().manual_seed(0)
        with ShardedDraws(shard):
            parts.append(draw(shard.size, mine))
        assert torch.equal(mine.get_state(), generator.get_state())
    assert torch.equal(torch.cat(parts), whole)


@pytest.mark.parametrize("device", DEVICES)
def test_rows_are_drawn_on_the_device_of_the_generator(device: str) -> None:
    whole = torch.randn(B, 2, generator=G(device).manual_seed(0), device=device)
    for shard in SHARDS:
        with ShardedDraws(shard):
            x = torch.zeros(shard.size, 2, device=device)
            rows = randn_like(x, G(device).manual_seed(0))
        assert rows.device == x.device
        assert torch.equal(rows, shard.take(whole))


def test_repeated_rows_are_those_of_the_whole_batch() -> None:
    whole = torch.randn(4 * B, 3, generator=G().manual_seed(0)).view(4, B, 3)
    for shard in SHARDS:
        with ShardedDraws(shard):
            part = torch.randn(4 * shard.size, 3, generator=G().manual_seed(0))
        assert torch.equal(part.view(4, shard.size, 3), shard.take(whole, 1))


def test_rows_of_the_second_dimension_are_those_of_the_whole_batch() -> None:
    whole = torch.rand(4, B, 3, generator=G().manual_seed(0))
    for shard in SHARDS:
        with ShardedDraws(shard, dim=1):
            part = torch.rand(4, shard.size, 3, generator=G().manual_seed(0))
        assert torch.equal(part, shard.take(whole, 1))


@pytest.mark.parametrize("shape", [(), (4,), (4, 2)])
def test_other_random_tensors_are_shared(shape: tuple[int, ...]) -> None:
    expected = torch.rand(shape, generator=G().manual_seed(0))
    with ShardedDraws(SHARDS[0]):  # three rows
        assert torch.equal(torch.rand(shape, generator=G().manual_seed(0)), expected)
        order = torch.randperm(3, generator=G().manual_seed(0))
    assert torch.equal(order, torch.randperm(3, generator=G().manual_seed(0)))


def test_positions_in_the_whole_batch() -> None:
    assert positions(4) == (range(4), 4)
    with ShardedDraws(Shard(2, 5, 9)):
        assert positions(3) == (range(2, 5), 9)
    assert positions(3) == (range(3), 3)


def test_one_process_computes_all_rows() -> None:
    assert over_rows(torch.neg, torch.ones(3)).tolist() == [-1, -1, -1]
    assert new_rows(torch.ones, 2).tolist() == [1, 1]


def test_processes_compute_their_rows(by_rank: dict[str, list[list[Tensor]]]) -> None:
    from .training.distributed.process_cases import expected_rows

    for found in by_rank["divided_rows"]:
        for ours, expected in zip(found, expected_rows(), strict=True):
            assert ours.shape == expected.shape
            assert (ours - expected).abs().max() < 1e-12
