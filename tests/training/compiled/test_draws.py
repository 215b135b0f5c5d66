"""Recorded random tensors compared with those of eager torch."""

import torch
from torch import Generator, Tensor

from fdsm.training.compiled.draws import GivenDraws, RecordedDraws


def draw_all(generator: Generator | None, x: Tensor) -> list[Tensor]:
    return [
        torch.randn(2, 3, generator=generator),
        torch.randint(5, (4,), generator=generator),
        torch.rand((3,), dtype=torch.float32, generator=generator),
        torch.normal(2.0, 0.5, (2,), generator=generator),
        torch.randperm(6, generator=generator),
        torch.rand_like(x, generator=generator),
    ]


def test_recorded_draws_repeat_the_calls_with_another_generator() -> None:
    x = torch.zeros(2, 2)
    with RecordedDraws(generator := Generator().manual_seed(0)) as record:
        first = draw_all(generator, x)
    again = [draw(Generator().manual_seed(0)) for draw in record.draws[:1]]
    assert torch.equal(first[0], again[0])
    other, direct = (Generator().manual_seed(7) for _ in range(2))
    expected = draw_all(direct, x)
    for drawn, truth in zip([draw(other) for draw in record.draws], expected, strict=True):
        assert drawn.dtype == truth.dtype
        assert torch.equal(drawn, truth)
    assert torch.equal(other.get_state(), direct.get_state())
    assert not record.others


def test_given_tensors_are_returned_in_order() -> None:
    given = [torch.full((1,), float(i)) for i in range(6)]
    with GivenDraws(given):
        drawn = draw_all(Generator(), torch.zeros(2))
    assert all(a is b for a, b in zip(drawn, given, strict=True))


def test_other_generators_and_random_numbers_of_tensors_are_noticed() -> None:
    with RecordedDraws(Generator()) as record:
        torch.randn(2)
        torch.randn(2, generator=Generator())
        torch.normal(torch.zeros(2), 1.0)
    assert record.others == ["randn", "randn", "normal"]
