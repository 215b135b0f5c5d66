import pytest
import torch
from torch import Generator, Tensor

from fdsm.training import ShuffledBatches, derived_seed


class Noise:
    """Adds noise to rows, as an augmentation does."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def sample(self, x: Tensor, generator: Generator) -> Tensor:
        noise = torch.randn(x.shape, generator=generator, device=x.device)
        return x + self.scale * noise if self.scale else x


def test_each_epoch_has_every_row_once_in_a_new_order(generator: Generator) -> None:
    batches = ShuffledBatches(torch.arange(10.0), Noise(0.0), size=5, seed=1)
    epochs = [torch.cat([batches(2 * e + i, generator) for i in range(2)]) for e in range(2)]
    assert all(torch.equal(epoch.sort().values, torch.arange(10.0)) for epoch in epochs)
    assert not torch.equal(epochs[0], epochs[1])


def test_batches_do_not_depend_on_the_order_of_calls(generator: Generator) -> None:
    rows = torch.arange(13.0)
    one, other = (ShuffledBatches(rows, Noise(0.0), size=4, seed=3) for _ in range(2))
    in_order = [one(i, generator) for i in range(8)]
    assert torch.equal(other(7, generator), in_order[7])
    assert torch.equal(other(2, generator), in_order[2])
    assert all(len(batch) == 4 for batch in in_order)


def test_batches_are_transformed_with_random_numbers_of_the_generator() -> None:
    rows = torch.ones(4, 2)
    batches = ShuffledBatches(rows, Noise(0.5), size=4, seed=0)
    a, b = (batches(0, Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(a, b)
    noise = torch.randn(4, 2, generator=Generator().manual_seed(7))
    torch.testing.assert_close(a, rows + 0.5 * noise)


def test_a_batch_has_all_rows_if_there_are_fewer_than_the_batch_size(generator: Generator) -> None:
    batches = ShuffledBatches(torch.arange(82.0), Noise(0.0), size=128, seed=0)
    equal = ShuffledBatches(torch.arange(82.0), Noise(0.0), size=82, seed=0)
    for i in range(3):
        batch = batches(i, generator)
        assert torch.equal(batch.sort().values, torch.arange(82.0))
        assert torch.equal(batch, equal(i, generator))


@pytest.mark.parametrize(("rows", "size"), [(0, 4), (3, 0)])
def test_empty_data_and_empty_batches_are_refused(rows: int, size: int) -> None:
    with pytest.raises(ValueError, match=f"got a batch size of {size} and {rows} rows"):
        ShuffledBatches(torch.zeros(rows, 2), Noise(0.0), size=size, seed=0)


def test_derived_seeds_are_different_for_different_labels() -> None:
    seeds = {
        derived_seed(s, *labels) for s in (0, 1) for labels in ((), (0,), (1,), ("a",), ("a", 1))
    }
    assert len(seeds) == 10
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize("device", ["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
def test_processes_share_the_rows_of_a_batch(device: str) -> None:
    rows = torch.arange(13.0)
    batches = ShuffledBatches(rows, Noise(0.0), 7, seed=3, device=device)
    generator = Generator(device)
    whole = batches(4, generator)
    parts = [batches.of_process(rank, 3)(4, generator) for rank in range(3)]
    assert [len(part) for part in parts] == [2, 2, 2]
    assert torch.equal(torch.stack(parts, 1).flatten(), whole[:6])
    assert parts[0].device.type == device


def test_each_process_has_noise_of_its_own() -> None:
    batches = ShuffledBatches(torch.ones(8, 2), Noise(1.0), 8, seed=3)
    first, second = (
        batches.of_process(rank, 2)(0, Generator().manual_seed(rank)) for rank in range(2)
    )
    assert (first - second).abs().min() > 1e-4
