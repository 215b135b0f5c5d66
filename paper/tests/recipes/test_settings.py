"""Settings given as text keep their types, and mistakes are explained."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fdsm.derivatives import FiniteDifference
from fdsm.objectives import SSM, MultiscaleDSM, SlicedDSM
from paper.recipes import EBM, MLP, TrainingPlan
from paper.recipes.settings import SettingError, change_settings, setting_paths

from .recipe_cases import tiny


@dataclass(frozen=True)
class Inner:
    width: int = 3
    betas: tuple[float, float] = (0.9, 0.999)
    widths: tuple[int, ...] = (1, 2)
    names: tuple[str, ...] | None = None
    clip: float | None = None
    flag: bool = False
    path: str | Path = "a"
    name: str = "x"
    note: str = field(default="", repr=False)


@dataclass(frozen=True)
class Outer:
    inner: Inner = Inner()
    plan: TrainingPlan = TrainingPlan()


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("inner.width=7", {"width": 7}),
        (" inner.width = 7 ", {"width": 7}),
        ("inner.betas=0.5,0.6", {"betas": (0.5, 0.6)}),
        ("inner.betas=(0.5, 0.6)", {"betas": (0.5, 0.6)}),
        ("inner.betas=[0.5, 0.6]", {"betas": (0.5, 0.6)}),
        ("inner.widths=8,9,10", {"widths": (8, 9, 10)}),
        ("inner.widths=8", {"widths": (8,)}),
        ("inner.names=('a', \"b\")", {"names": ("a", "b")}),
        ("inner.names=height,weight", {"names": ("height", "weight")}),
        ("inner.names=height", {"names": ("height",)}),
        ("inner.names=none", {"names": None}),
        ("inner.clip=1e-1", {"clip": 0.1}),
        ("inner.clip=3", {"clip": 3}),
        ("inner.clip=none", {"clip": None}),
        ("inner.clip=null", {"clip": None}),
        ("inner.flag=true", {"flag": True}),
        ("inner.flag=False", {"flag": False}),
        ("inner.path=b/c", {"path": "b/c"}),
        ("inner.name=a=b", {"name": "a=b"}),
        ("inner.name=7", {"name": "7"}),
    ],
)
def test_values_have_the_type_of_their_field(setting: str, expected: dict[str, object]) -> None:
    assert change_settings(Outer(), [setting]) == Outer(Inner(**expected))  # type: ignore[arg-type]


def test_one_field_deep_in_an_objective_changes_and_nothing_else() -> None:
    before = MultiscaleDSM(SlicedDSM(0.1, FiniteDifference()))
    after = change_settings(before, ["objective.derivative.accuracy=4"])
    assert isinstance(after.objective, SlicedDSM)
    assert isinstance(before.objective, SlicedDSM)
    assert after.objective.derivative == FiniteDifference(accuracy=4)
    assert after.objective.projection == before.objective.projection
    assert before.objective.derivative == FiniteDifference()


def test_later_settings_win() -> None:
    changed = change_settings(Outer(), ["plan.batch=8", "inner.width=4", "plan.batch=9"])
    assert changed.plan.batch == 9
    assert changed.inner.width == 4
    assert change_settings(Outer(), []) == Outer()


def test_whole_classes_are_given_as_json() -> None:
    text = '{"class": "paper.recipes.MLP", "widths": [4, 5]}'
    assert change_settings(tiny, [f"network={text}"]).network == MLP((4, 5))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("plan.iterations", r"expected PATH=VALUE, such as optimizer.lr=1e-3: 'plan.iterations'"),
        ("=3", "expected PATH=VALUE"),
        ("plan..batch=3", "expected PATH=VALUE"),
        (
            "plan.iteratons=3",
            r"no setting plan.iteratons. Did you mean plan.iterations\? Allowed here: iterations,",
        ),
        ("batch=3", r"no setting batch. Did you mean plan.batch\? Allowed here: inner, plan$"),
        ("plan.width=3", r"Did you mean inner.width\?"),
        ("zzz=3", r"there is no setting zzz. Allowed here: inner, plan$"),
        ("plan.iterations=many", "plan.iterations must be int, not 'many'. It is 3000 now"),
        ("plan.iterations=1.5", "plan.iterations must be int, not '1.5'"),
        ("plan.iterations=true", "plan.iterations must be int"),
        ("plan.iterations=", "plan.iterations must be int"),
        ("plan.iterations=0", r"plan.iterations=0 is not allowed: .*must be at least 1"),
        ("plan.patience=3", "plan.validate_every must be between 1 and plan.patience = 3"),
        ("inner.betas=0.5", r"inner.betas must be tuple\[float, float\]"),
        ("inner.clip=big", r"inner.clip must be float \| None, not 'big'"),
        ("inner.flag=maybe", "inner.flag must be bool"),
        (
            "inner.width.deeper=1",
            r"no setting inner.width.deeper. Did you mean inner.width\? .*none",
        ),
        ("inner=1", "inner must be Inner, not '1'"),
        ("inner.note=x", "there is no setting inner.note"),
        ("plan={}", "plan must be TrainingPlan"),
        ('plan={"class": "os.system"}', "os.system is not part of this package"),
        ('plan={"class": "paper.recipes.MLP"}', "plan must be TrainingPlan"),
    ],
)
def test_mistakes_say_what_is_allowed(setting: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        change_settings(Outer(), [setting])


def test_all_mistakes_are_listed_at_once() -> None:
    with pytest.raises(SettingError, match=r"no setting a\..*; .*no setting b\.") as error:
        change_settings(Outer(), ["a=1", "plan.batch=4", "b=2"])
    assert "batch" not in str(error.value)


def test_values_that_an_objective_refuses_are_mistakes_too() -> None:
    with pytest.raises(SettingError, match=r"projection.radius=-1 is not allowed: .*positive"):
        change_settings(SSM(), ["projection.radius=-1"])


def test_errors_do_not_mention_the_command_line() -> None:
    for setting in ("a=1", "plan.iterations=x", "x"):
        with pytest.raises(SettingError) as error:
            change_settings(tiny, [setting])
        assert "--" not in str(error.value)


def test_paths_name_every_setting() -> None:
    paths = list(setting_paths(tiny))
    for path in ("name", "objective.projection.radius", "network.widths", "plan.batch"):
        assert path in paths
    assert "provenance" not in paths
    for path in paths:
        value: object = tiny
        for name in path.split("."):
            value = getattr(value, name)
    assert isinstance(tiny, EBM)
