"""Runs whose training step is compiled. They equal eager ones and continue bit for bit."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

from fdsm.training import CompiledUpdate, CompileWarning, ConstantSchedule, GradientStep
from paper.runs import Run, TrainingInterrupted, train
from paper.runs.compile_decision import Estimate
from paper.runs.train import Training

from ..recipes.recipe_cases import tiny
from .run_cases import (
    identical,
    interrupt_after,
    last_checkpoint,
    logged_metrics,
)

STEADY = replace(tiny, step_size=ConstantSchedule())


@pytest.fixture(autouse=True)
def _traced_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run traced graphs operation by operation, without waiting for the compiler."""
    monkeypatch.setattr("fdsm.training.compiled.graph._compiled", lambda traced, inputs: traced)


@pytest.mark.nightly
def test_compiled_training_equals_eager_training(tmp_path: Path) -> None:
    """With an average of the weights."""
    eager, compiled = (Run.create(tmp_path / name, STEADY) for name in ("eager", "compiled"))
    expected = train(eager)
    found = train(compiled, compile="on")
    assert last_checkpoint(compiled)["compiled"]
    weights = (m.model.state_dict() for m in (found, expected))
    for a, b in zip(*(w.values() for w in weights), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.nightly
@pytest.mark.parametrize("choice", ["on", "auto"])
def test_compiled_run_continues_bit_by_bit(
    choice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With "auto", the decision of the first session is kept."""
    monkeypatch.setattr(Estimate, "pays", lambda self, iterations: iterations == 40)
    whole, run = (Run.create(tmp_path / name, STEADY) for name in ("whole", "run"))
    train(whole, compile=choice)  # type: ignore[arg-type]
    with monkeypatch.context() as patch:
        interrupt_after(17, patch)
        with pytest.raises(TrainingInterrupted):
            train(run, compile=choice)  # type: ignore[arg-type]
    train(Run.open(run.folder), compile=choice)  # type: ignore[arg-type]
    assert last_checkpoint(run)["compiled"]
    assert identical(last_checkpoint(run), last_checkpoint(whole))
    assert logged_metrics(run) == logged_metrics(whole)


@pytest.mark.parametrize(("pays", "words"), [(True, "is compiled"), (False, "is not compiled")])
def test_the_decision_is_printed_and_changes_no_random_number(
    pays: bool, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Estimate, "pays", lambda self, iterations: pays)
    run = Run.create(tmp_path / "run", STEADY)
    training = Training(run, run.recipe.data.load())
    state = training.generator.get_state()
    message = training.choose_compilation("auto")
    assert f"The training step {words}: in 40 iterations that saves about" in message
    assert torch.equal(training.generator.get_state(), state)
    assert isinstance(training.step, GradientStep)
    assert isinstance(training.step.update, CompiledUpdate) == pays
    console = Console(file=io.StringIO(), width=200)
    train(run, compile="auto", console=console)
    assert words in console.file.getvalue()  # type: ignore[attr-defined]


def test_compiling_off_is_kept_off(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", STEADY)
    training = Training(run, run.recipe.data.load())
    assert training.choose_compilation("off") == ""
    assert isinstance(training.step, GradientStep)
    assert not isinstance(training.step.update, CompiledUpdate)


def test_a_step_size_that_changes_is_not_compiled(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", tiny)
    with pytest.warns(CompileWarning, match="a step size that changes during training"):
        train(run, compile="on")
    assert run.is_trained
