"""Settings from the command line keep their types, and mistakes are explained."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from fdsm.recipes.override import OverrideError, override

from fdsm.derivatives import FiniteDifference
from fdsm.objectives import SSM, MultiscaleDSM, SlicedDSM
from fdsm.recipes.recipe import TrainingPlan


@dataclass(frozen=True)
class Inner:
    width: int = 3
    betas: tuple[float, float] = (0.9, 0.999)
    widths: tuple[int, ...] = (1, 2)
    names: tuple[str, ...] = ()
    clip: float | None = None
    flag: bool = False
    path: str | Path = "a"
    name: str = "x"


@dataclass(frozen=True)
class Outer:
    inner: Inner = Inner()
    plan: TrainingPlan = TrainingPlan()


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("inner.width=7", {"width": 7}),
        ("inner.betas=0.5,0.6", {"betas": (0.5, 0.6)}),
        ("inner.betas=(0.5, 0.6)", {"betas": (0.5, 0.6)}),
        ("inner.widths=8,9,10", {"widths": (8, 9, 10)}),
        ("inner.names=('a', \"b\")", {"names": ("a", "b")}),
        ("inner.clip=1e-1", {"clip": 0.1}),
        ("inner.clip=none", {"clip": None}),
        ("inner.flag=yes", {"flag": True}),
        ("inner.flag=False", {"flag": False}),
        ("inner.path=b/c", {"path": "b/c"}),
        ("inner.name=a=b", {"name": "a=b"}),
    ],
)
def test_values_have_the_type_of_their_field(setting: str, expected: dict[str, object]) -> None:
    assert override(Outer(), setting) == Outer(Inner(**expected))  # type: ignore[arg-type]


def test_one_field_deep_in_an_objective_changes_and_nothing_else() -> None:
    before = MultiscaleDSM(SlicedDSM(0.1, FiniteDifference()))
    after = override(before, "objective.derivative.accuracy=4")
    assert after.objective.derivative == FiniteDifference(accuracy=4)
    assert after.objective.projection == before.objective.projection
    assert before.objective.derivative == FiniteDifference()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("plan.iterations", "expected path=value but got 'plan.iterations'"),
        (
            "plan.iteratons=3",
            "TrainingPlan has no 'iteratons', but iterations, .* Did you mean iterations",
        ),
        ("plan.iterations=many", "takes int, and is now 3000"),
        ("plan.iterations=1.5", "takes int"),
        ("plan.iterations=0", "must be at least 1, but is 0"),
        ("plan.patience=3", "validate_every must be between 1 and that"),
        ("inner.betas=0.5", "takes tuple"),
        ("inner.clip=big", "takes float or NoneType"),
        ("inner.width.deeper=1", "there is nothing inside 3"),
        ("inner=1", "takes Inner"),
    ],
)
def test_mistakes_say_what_is_possible(setting: str, message: str) -> None:
    with pytest.raises(OverrideError, match=message):
        override(Outer(), setting)


def test_what_an_objective_refuses_is_a_mistake_too() -> None:
    with pytest.raises(OverrideError, match=r"cannot set projection.radius to -1"):
        override(SSM(), "projection.radius=-1")
