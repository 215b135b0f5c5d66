import pytest
import torch
from torch import Generator

from fdsm.samplers import StepAdaptation
from fdsm.samplers.step_adaptation import initial_step_sizes


def test_adaptation_stays_within_its_bounds() -> None:
    adapt, step = StepAdaptation(min_step=0.1, max_step=0.2), torch.tensor([0.1, 0.2, 0.15, 0.15])
    found = adapt(step, torch.tensor([0.0, 1.0, 0.64, 0.66]))
    torch.testing.assert_close(found, torch.tensor([0.1, 0.2, 0.147, 0.153]))


def test_jitter_is_uniform_around_the_step(generator: Generator) -> None:
    steps = initial_step_sizes(torch.zeros(50_000, 1), 0.1, 0.2, None)
    drawn = steps.sample(generator)
    assert drawn.min() >= 0.08
    assert drawn.max() <= 0.12
    assert drawn.mean().item() == pytest.approx(0.1, rel=1e-3)
    assert drawn.std().item() == pytest.approx(0.04 / 12**0.5, rel=1e-2)


def test_acceptance_is_an_exponential_moving_average() -> None:
    steps = initial_step_sizes(torch.zeros(1, 1), 0.1, 0.0, StepAdaptation(decay=0.8))
    steps = steps.update(torch.tensor([0.0])).update(torch.tensor([1.0]))
    assert steps.acceptance.item() == pytest.approx(0.8 * 0.8 * 0.65 + 0.2)
    assert steps.step.item() == pytest.approx(0.1 * 0.98 * 0.98)  # 0.52, then 0.616


@pytest.mark.parametrize(
    "wrong",
    [{"target": 1.0}, {"grow": 0.9}, {"shrink": 1.0}, {"min_step": 0.0}, {"max_step": 1e-5}],
)
def test_invalid_adaptations_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"expected .* but got"):
        StepAdaptation(**wrong)
