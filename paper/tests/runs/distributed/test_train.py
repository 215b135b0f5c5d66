import pytest

import fdsm.training.checkpoint as checkpoint
from paper.runs import Run, SavedModel

from ...conftest import Launched
from ..run_cases import logged_metrics
from .launch_cases import FIRST, SECOND, THIRD, Resumed

pytestmark = pytest.mark.nightly

TOLERANCE = 2e-6


def ends_like_one_process(launched: Launched, name: str) -> None:
    """Compare the curves, the last checkpoint and the model with those of one process."""
    ours, expected = Run.open(launched.folder / name), Run.open(launched.folder / "one")
    lines, others = logged_metrics(ours), logged_metrics(expected)
    assert [line.keys() for line in lines] == [line.keys() for line in others]
    for line, other in zip(lines, others, strict=True):
        found = line.get("validation", line)
        truth = other.get("validation", other)
        assert found == pytest.approx(truth, rel=TOLERANCE, abs=TOLERANCE)
    states = [checkpoint.load(run.checkpoints.numbered()[0]) for run in (ours, expected)]
    assert states[0]["iteration"] == states[1]["iteration"] == 12
    for key in ("model", "average"):
        _close(states[0][key], states[1][key])
    _close(states[0]["step"]["optimizer"]["state"], states[1]["step"]["optimizer"]["state"])
    _close(
        dict(SavedModel.load(ours).model.named_parameters()),
        dict(SavedModel.load(expected).model.named_parameters()),
    )


def _close(a: object, b: object) -> None:
    if isinstance(a, dict) and isinstance(b, dict):
        assert a.keys() == b.keys()
        for key in a:
            _close(a[key], b[key])
    elif hasattr(a, "shape") and hasattr(b, "shape"):
        assert a.shape == b.shape
        assert (a - b).abs().max() < 20 * TOLERANCE
    else:
        assert a == b


@pytest.mark.parametrize("case", FIRST, ids=lambda case: case.target)
def test_several_processes_train_like_one(launched: Launched, case: Resumed) -> None:
    ends_like_one_process(launched, case.target)


@pytest.mark.parametrize("case", [*SECOND, *THIRD], ids=lambda case: case.target)
def test_checkpoints_are_resumed_by_other_numbers_of_processes(
    launched: Launched, case: Resumed
) -> None:
    ends_like_one_process(launched, case.target)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("scalar", "tiny cannot be trained with --fsdp: torch cannot divide parameters that are"),
        (
            "inner gradient",
            "taylor cannot be trained with --fsdp: the loss takes gradients itself",
        ),
    ],
)
def test_what_cannot_be_divided_is_refused_before_any_write(
    launched: Launched, name: str, reason: str
) -> None:
    first, second = (printed[name] for printed in launched.printed)
    assert first.startswith(f"LaunchError: {reason}")
    assert second == "FailedElsewhere: process 0 has failed"
    assert not (launched.folder / name).exists()


def test_each_process_has_random_numbers_of_its_own(launched: Launched) -> None:
    first, second = (printed["seed"] for printed in launched.printed)
    assert first != second
