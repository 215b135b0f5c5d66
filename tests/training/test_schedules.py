import math

import pytest

from fdsm.derivatives import FiniteDifference
from fdsm.objectives import DSM, SSM, SSMVR, Annealed, MultiscaleDSM, SlicedDSM
from fdsm.projections import Gaussian, Sphere
from fdsm.training import ConstantSchedule, CosineSchedule, ExponentialSchedule, scale_step_size


def test_cosine_schedule_at_start_middle_and_end() -> None:
    schedule = CosineSchedule(0.2)
    assert [schedule(t) for t in (0.0, 0.5, 1.0)] == pytest.approx([1.0, 0.6, 0.2])
    assert schedule(0.25) == pytest.approx(0.2 + 0.8 * (1 + math.sqrt(0.5)) / 2)


def test_exponential_schedule_decays_by_a_constant_ratio() -> None:
    schedule = ExponentialSchedule(1e-4)
    assert [schedule(t) for t in (0.0, 0.25, 0.5, 1.0)] == pytest.approx([1, 0.1, 0.01, 1e-4])
    with pytest.raises(ValueError, match=r"in \(0, 1\], but is 0"):
        ExponentialSchedule(0.0)


def test_a_factor_of_one_returns_the_same_objective() -> None:
    objective = SSM()
    assert scale_step_size(objective, ConstantSchedule()(0.7)) is objective


def test_the_step_of_nested_objectives_is_scaled() -> None:
    sliced = SlicedDSM(0.3, FiniteDifference(), Sphere(0.2))
    assert scale_step_size(MultiscaleDSM(sliced), 0.5).objective.projection == Sphere(0.1)
    annealed = scale_step_size(Annealed(SSMVR(FiniteDifference(), Sphere(0.2))), 0.5)
    assert annealed.objective.projection == Sphere(0.1)
    assert annealed.levels == Annealed().levels


def test_objectives_without_a_step_are_unchanged() -> None:
    for objective in (DSM(0.1), SSM(projection=Gaussian())):
        assert scale_step_size(objective, 0.5) == objective
