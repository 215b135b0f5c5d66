"""Settings as JSON: exact round trips, and nothing but settings is ever constructed."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

from paper.data import Table
from fdsm.derivatives import FiniteDifference
from fdsm.objectives import DSM, SSM, Annealed, SlicedDSM
from fdsm.projections import Sphere
from paper.recipes import EBM, MLP, Frechet, Recipe, TrainingPlan
from paper.recipes.frechet import for_training
from paper.recipes.presets import FAMILIES, Kind
from fdsm.serialize import (
    Json,
    RecordError,
    differences,
    find_fields,
    from_json,
    has_type,
    public_name,
    replace_fields,
    to_json,
    type_name,
)


def preset_recipes() -> Iterator[Recipe]:
    """Yield the recipe of every model family, objective and size of data."""
    for name, family in FAMILIES.items():
        for is_images in (False, True):
            if ("images" if is_images else "tables") in family.data:
                for objective, build in family.objectives.items():
                    for rows in (20, 5000, 200_000):
                        kind = Kind(is_images, rows, 64)
                        recipe = family.build(Table("x.csv"), kind, build(None))
                        yield replace(recipe, name=f"{name}-{objective}-{is_images}-{rows}")  # type: ignore[type-var]


@pytest.mark.parametrize("recipe", list(preset_recipes()), ids=lambda recipe: recipe.name)
def test_every_recipe_survives_the_way_to_json_and_back(recipe: Recipe) -> None:
    record = to_json(recipe)
    assert isinstance(record, dict)
    text = json.loads(json.dumps(record))
    rebuilt = from_json(text)
    assert type(rebuilt) is type(recipe)
    assert replace(rebuilt, provenance=recipe.provenance) == recipe
    assert to_json(rebuilt) == record == text
    assert str(record["class"]).startswith("fdsm.recipes.")
    assert "provenance" not in record


def test_json_has_every_field_even_those_with_their_default() -> None:
    """Otherwise a default that changes later would change old runs."""
    assert to_json(TrainingPlan()) == {
        "class": "fdsm.recipes.TrainingPlan",
        "iterations": 3000,
        "batch": 128,
        "log_every": 10,
        "validate_every": 500,
        "checkpoint_every": 500,
        "keep_checkpoints": 2,
        "ema_decay": None,
        "patience": None,
        "num_samples": 64,
    }


def test_functions_classes_paths_and_tuples_are_recorded() -> None:
    record = to_json({"f": for_training, "c": SSM, "path": Path("a/b"), "pair": (1, (2.5, None))})
    assert record == {
        "f": {"import": "fdsm.recipes.for_training"},
        "c": {"import": "fdsm.objectives.SSM"},
        "path": "a/b",
        "pair": [1, [2.5, None]],
    }
    assert from_json(record) == {
        "f": for_training, "c": SSM, "path": "a/b", "pair": (1, (2.5, None)),
    }  # fmt: skip


@pytest.mark.parametrize("value", [torch.zeros(2), object(), {1, 2}, 1j])
def test_values_that_json_cannot_hold_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match=rf"a {type(value).__name__} cannot be recorded"):
        to_json({"inside": [value]})


def test_public_name_does_not_depend_on_the_file_of_a_class() -> None:
    assert public_name(Sphere) == "fdsm.projections.Sphere"
    assert public_name(FiniteDifference) == "fdsm.derivatives.FiniteDifference"
    assert public_name(EBM) == "fdsm.recipes.EBM"


SSM_RECORD = to_json(SSM())


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"class": "os.system"}, "os.system is not part of this package"),
        ({"import": "os.system"}, "os.system is not part of this package"),
        ({"class": "builtins.eval"}, "builtins.eval is not part"),
        ({"import": "eval"}, "eval is not part"),
        ({"class": "torch.load"}, "torch.load is not part"),
        ({"import": "subprocess.Popen"}, "subprocess.Popen is not part"),
        ({"class": "fdsmevil.Settings"}, "fdsmevil.Settings is not part"),
        ({"class": "tests.test_serialize.Settings"}, "is not part of this package"),
        ({"class": "fdsm.nowhere.SSM"}, "there is no module fdsm.nowhere in this version"),
        ({"class": "fdsm.objectives.Nothing"}, "there is no fdsm.objectives.Nothing"),
        ({"import": "fdsm.runs.run.json"}, "there is no fdsm.runs.run.json"),
        ({"import": "fdsm.runs.run.Path"}, "there is no fdsm.runs.run.Path"),
        ({"import": "fdsm.serialize.importlib"}, "there is no fdsm.serialize.importlib"),
        ({"class": "fdsm.recipes.for_training"}, "is not a class of settings"),
        ({"class": "fdsm.models.NICE"}, "fdsm.models.NICE is not a class of settings"),
        ({"class": "fdsm.runs.RunError"}, "fdsm.runs.RunError is not a class of settings"),
        ({"class": "fdsm.recipes.Recipe"}, "is not a class of settings"),
        ({"class": ""}, "is not part of this package"),
        ({"class": None}, "is not part of this package"),
        ({"class": ["fdsm.objectives.SSM"]}, "is not part of this package"),
    ],
    ids=str,
)
def test_records_of_anything_but_settings_are_refused(record: Json, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        from_json(record)
    with pytest.raises(RecordError, match=message):
        from_json({"objective": [1, {"inside": record}]})


@pytest.mark.parametrize("key", ["class", "import"])
def test_modules_outside_the_package_are_not_imported(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "executed"
    source = f"import pathlib\npathlib.Path({str(marker)!r}).touch()\n"
    (tmp_path / "side_effects.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("side_effects.Settings", "side_effects", "fdsm.side_effects.Settings"):
        with pytest.raises(RecordError):
            from_json({key: name})
    assert "side_effects" not in sys.modules
    assert not marker.exists()


def test_functions_in_records_are_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[object] = []

    def log(text: str) -> None:
        called.append(text)

    log.__module__ = "fdsm.cli.printing"
    monkeypatch.setattr("fdsm.cli.printing.log", log)
    with pytest.raises(RecordError, match="is not a class of settings"):
        from_json({"class": "fdsm.cli.printing.log", "text": "called"})
    assert from_json({"import": "fdsm.cli.printing.log"}) is log
    assert not called


PLAN, RECIPE = to_json(TrainingPlan()), to_json(EBM("x", DSM(0.1), Table("x.csv")))
assert isinstance(PLAN, dict)
assert isinstance(RECIPE, dict)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (PLAN | {"epochs": 3}, r"TrainingPlan: unknown field 'epochs'"),
        (
            {"class": "fdsm.recipes.EBM", "nme": "x", "objective": SSM_RECORD},
            "unknown field 'nme', missing field 'name', missing field 'data'",
        ),
        ({"class": "fdsm.objectives.DSM"}, "fdsm.objectives.DSM: missing field 'sigma'"),
        (PLAN | {"iterations": "many"}, r"TrainingPlan.iterations must be int, got 'many'"),
        (PLAN | {"iterations": 2.5}, r"iterations must be int, got 2.5"),
        (PLAN | {"iterations": True}, r"iterations must be int, got True"),
        (PLAN | {"iterations": None}, r"iterations must be int, got None"),
        (PLAN | {"ema_decay": "0.9"}, r"ema_decay must be float \| None, got '0.9'"),
        (PLAN | {"batch": [1]}, r"batch must be int, got \(1,\)"),
        (RECIPE | {"objective": 3}, r"EBM.objective must be .*Objective, got 3"),
        (RECIPE | {"objective": {}}, r"EBM.objective must be .*Objective, got {}"),
        (RECIPE | {"objective": [SSM_RECORD]}, r"EBM.objective must be .*Objective, got"),
        (RECIPE | {"plan": SSM_RECORD}, r"EBM.plan must be TrainingPlan, got SSM"),
        (RECIPE | {"ood_sources": ["x"]}, r"EBM.ood_sources must be tuple"),
    ],
    ids=range(14),
)
def test_wrong_fields_are_named_with_the_allowed_type(record: Json, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        from_json(record)


def test_values_that_a_class_refuses_are_errors() -> None:
    with pytest.raises(ValueError, match=r"plan.iterations must be at least 1, but is 0"):
        from_json(PLAN | {"iterations": 0})  # type: ignore[operator]


@dataclass(frozen=True)
class Settings:
    """Settings outside the package."""

    width: int
    hidden: str = field(default="", repr=False)


def test_classes_of_a_trusted_module_are_allowed() -> None:
    module = sys.modules[__name__]
    record = to_json(Settings(3, hidden="not recorded"))
    assert record == {"class": f"{__name__}.Settings", "width": 3}
    assert from_json(record, module) == Settings(3)
    with pytest.raises(RecordError, match="is not part of this package"):
        from_json(record, ModuleType("another"))
    with pytest.raises(RecordError, match="unknown field 'depth'"):
        from_json({**record, "depth": 1}, module)


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (3, int, True),
        (3, float, True),
        (True, int, False),
        (True, float, False),
        (1, bool, False),
        ("a", str, True),
        ("a", Path, True),
        (None, int | None, True),
        ((1, 2), tuple[int, ...], True),
        ((1, 2.5), tuple[int, ...], False),
        ((), tuple[int, ...], True),
        ((1.0, 2.0), tuple[float, float], True),
        ((1.0,), tuple[float, float], False),
        (3, tuple[int, ...], False),
        (MLP(), MLP, True),
        (TrainingPlan(), MLP, False),
        ("MLP", MLP, False),
    ],
)
def test_types_are_those_of_the_annotation(value: object, hint: object, expected: bool) -> None:
    assert has_type(value, hint) is expected


def test_types_are_named_as_in_code() -> None:
    assert type_name(int) == "int"
    assert type_name(float | None) == "float | None"
    assert type_name(tuple[int, ...]) == "tuple[int, ...]"
    assert type_name(TrainingPlan) == "TrainingPlan"


def test_differences_name_the_path_of_every_leaf() -> None:
    before = to_json(SSM(FiniteDifference(), Sphere(0.1)))
    after = to_json(SSM(FiniteDifference(accuracy=4), Sphere(0.2)))
    assert differences(before, after) == [
        "derivative.accuracy: 2 -> 4",
        "projection.radius: 0.1 -> 0.2",
    ]
    assert differences(before, before) == []
    assert differences({"a": 1}, {"b": 1}) == ["a: 1 -> None", "b: None -> 1"]


def test_fields_are_found_and_replaced_at_any_depth() -> None:
    objective = Annealed(SlicedDSM(0.3, FiniteDifference(), Sphere(0.1)))
    assert list(find_fields(objective, "radius")) == [0.1]
    assert list(find_fields(objective, "nothing")) == []
    changed = replace_fields(objective, "radius", lambda radius: 2 * radius)
    assert list(find_fields(changed, "radius")) == [0.2]
    assert differences(to_json(objective), to_json(changed)) == [
        "objective.projection.radius: 0.1 -> 0.2"
    ]
    assert replace_fields(objective, "nothing", lambda _: 1) is objective


def test_callables_must_be_callable() -> None:
    record = to_json(Frechet(from_json({"class": "fdsm.recipes.RandomFeatures"}), 10))
    assert isinstance(record, dict)
    assert from_json(record).reference.__name__ == "for_test"
    with pytest.raises(RecordError, match=r"Frechet.reference must be"):
        from_json({**record, "reference": PLAN})
