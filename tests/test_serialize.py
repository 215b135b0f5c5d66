"""Settings as JSON: exact round trips, and nothing but settings is ever constructed."""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest
import torch

from fdsm.derivatives import FiniteDifference
from fdsm.noise import Geometric, LogUniform
from fdsm.objectives import SSM, Annealed, AnnealedDSM, SlicedDSM, ViaScore
from fdsm.operators import laplacian
from fdsm.projections import Sphere
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
from fdsm.tables.summary import FileRecord
from fdsm.training import Adam, CosineSchedule

VALUES = {
    "SSM": SSM(FiniteDifference(accuracy=4), Sphere(0.2), directions=3),
    "Annealed": Annealed(SlicedDSM(0.3, FiniteDifference(), Sphere(0.1)), Geometric(2.0, 0.1, 7)),
    "ViaScore": ViaScore(AnnealedDSM(LogUniform(2.0, 0.05))),
    "Adam": Adam(2e-3, (0.9, 0.99), clip=10.0, schedule=CosineSchedule()),
    "FileRecord": FileRecord("a.csv", 30, sampled_rows=20),
}


@pytest.mark.parametrize("name", VALUES)
def test_settings_survive_the_way_to_json_and_back(name: str) -> None:
    record = to_json(VALUES[name])
    assert isinstance(record, dict)
    text = json.loads(json.dumps(record))
    rebuilt = from_json(text)
    assert type(rebuilt) is type(VALUES[name])
    assert rebuilt == VALUES[name]
    assert to_json(rebuilt) == record == text


def test_json_has_every_field_even_those_with_their_default() -> None:
    """Otherwise a default that changes later would change old records."""
    assert to_json(Adam()) == {
        "class": "fdsm.training.Adam",
        "lr": 1e-3,
        "betas": [0.9, 0.999],
        "weight_decay": 0.0,
        "clip": None,
        "schedule": {"class": "fdsm.training.ConstantSchedule"},
    }


def test_functions_classes_paths_and_tuples_are_recorded() -> None:
    record = to_json({"f": laplacian, "c": SSM, "path": Path("a/b"), "pair": (1, (2.5, None))})
    assert record == {
        "f": {"import": "fdsm.operators.laplacian"},
        "c": {"import": "fdsm.objectives.SSM"},
        "path": "a/b",
        "pair": [1, [2.5, None]],
    }
    assert from_json(record) == {
        "f": laplacian, "c": SSM, "path": "a/b", "pair": (1, (2.5, None)),
    }  # fmt: skip


@pytest.mark.parametrize("value", [torch.zeros(2), object(), {1, 2}, 1j])
def test_values_that_json_cannot_hold_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match=rf"a {type(value).__name__} cannot be recorded"):
        to_json({"inside": [value]})


def test_public_name_does_not_depend_on_the_file_of_a_class() -> None:
    assert public_name(Sphere) == "fdsm.projections.Sphere"
    assert public_name(FiniteDifference) == "fdsm.derivatives.FiniteDifference"
    assert public_name(Adam) == "fdsm.training.Adam"


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
        ({"import": "fdsm.tables.model.json"}, "there is no fdsm.tables.model.json"),
        ({"import": "fdsm.tables.model.Path"}, "there is no fdsm.tables.model.Path"),
        ({"import": "fdsm.serialize.importlib"}, "there is no fdsm.serialize.importlib"),
        ({"class": "fdsm.operators.laplacian"}, "is not a class of settings"),
        ({"class": "fdsm.models.NICE"}, "fdsm.models.NICE is not a class of settings"),
        ({"class": "fdsm.tables.ModelError"}, "fdsm.tables.ModelError is not a class of settings"),
        ({"class": "fdsm.typing.Objective"}, "is not a class of settings"),
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


FILE, ANNEALED = to_json(FileRecord("a.csv", 30)), to_json(Annealed())
ADAM = to_json(Adam())
assert isinstance(FILE, dict)
assert isinstance(ANNEALED, dict)
assert isinstance(ADAM, dict)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (FILE | {"epochs": 3}, r"FileRecord: unknown field 'epochs'"),
        (
            {"class": "fdsm.tables.summary.FileRecord", "nme": "x"},
            "unknown field 'nme', missing field 'name', missing field 'rows'",
        ),
        ({"class": "fdsm.objectives.DSM"}, "fdsm.objectives.DSM: missing field 'sigma'"),
        (FILE | {"rows": "many"}, r"FileRecord.rows must be int, got 'many'"),
        (FILE | {"rows": 2.5}, r"rows must be int, got 2.5"),
        (FILE | {"rows": True}, r"rows must be int, got True"),
        (FILE | {"rows": None}, r"rows must be int, got None"),
        (FILE | {"sampled_rows": "9"}, r"sampled_rows must be int \| None, got '9'"),
        (FILE | {"copies": [1]}, r"copies must be int, got \(1,\)"),
        (ANNEALED | {"objective": 3}, r"Annealed.objective must be .*Objective, got 3"),
        (ANNEALED | {"objective": {}}, r"Annealed.objective must be .*Objective, got {}"),
        (ANNEALED | {"objective": [SSM_RECORD]}, r"Annealed.objective must be .*Objective, got"),
        (ADAM | {"betas": [0.9]}, r"Adam.betas must be tuple\[float, float\], got \(0.9,\)"),
        (ADAM | {"betas": ["x", 1.0]}, r"Adam.betas must be tuple"),
    ],
    ids=range(14),
)
def test_wrong_fields_are_named_with_the_allowed_type(record: Json, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        from_json(record)


def test_values_that_a_class_refuses_are_errors() -> None:
    levels = {"class": "fdsm.noise.Geometric", "first": 1.0, "last": 0.1, "count": 0}
    with pytest.raises(ValueError, match=r"at least one noise level, but got a count of 0"):
        from_json(levels)


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
        (Adam(), Adam, True),
        (SSM(), Adam, False),
        ("Adam", Adam, False),
    ],
)
def test_types_are_those_of_the_annotation(value: object, hint: object, expected: bool) -> None:
    assert has_type(value, hint) is expected


def test_types_are_named_as_in_code() -> None:
    assert type_name(int) == "int"
    assert type_name(float | None) == "float | None"
    assert type_name(tuple[int, ...]) == "tuple[int, ...]"
    assert type_name(Adam) == "Adam"


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
