"""Training a run: an interrupted run ends bit for bit like an uninterrupted one."""

import signal
from pathlib import Path

import pytest
import torch
from torch import nn

import fdsm.training.checkpoint as checkpoint
from fdsm.training import GradientStep, IterationEvent, NonFiniteLossError
from fdsm.training.loggers import read_metrics
from fdsm.typing import Step
from paper.data import Dataset
from paper.lock import BusyError, exclusive
from paper.recipes import EBM
from paper.recipes.settings import change_settings
from paper.runs import Run, RunError, SavedModel, TrainingInterrupted, recipe_from_file, train
from paper.runs.train import Training

from ..recipes.recipe_cases import dropping, tiny
from .run_cases import (
    RECIPE_FILE,
    array_recipe,
    identical,
    interrupt_after,
    last_checkpoint,
    logged_metrics,
    model_file,
    start_tiny,
    write_array,
)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Run:
    torch.set_default_dtype(torch.float32)
    run = start_tiny(tmp_path_factory.mktemp("uninterrupted") / "run")
    train(run)
    return run


@pytest.mark.parametrize("iteration", [1, 10, 17, 39])
def test_interrupted_run_ends_bit_for_bit_like_an_uninterrupted_one(
    iteration: int, uninterrupted: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_tiny(tmp_path / "run")
    with monkeypatch.context() as patch:
        interrupt_after(iteration, patch)
        with pytest.raises(
            TrainingInterrupted, match=rf"after iteration {iteration} of 40. A checkpoint"
        ) as stopped:
            train(run)
    assert stopped.value.signal == signal.SIGTERM
    train(Run.open(run.folder))
    assert identical(last_checkpoint(run), last_checkpoint(uninterrupted))
    assert logged_metrics(run) == logged_metrics(uninterrupted)
    assert identical(model_file(run), model_file(uninterrupted))


def test_metrics_logged_after_the_last_checkpoint_are_removed_on_resume(
    uninterrupted: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_tiny(tmp_path / "run")
    original = Training._count

    def count(self: Training, event: IterationEvent) -> None:
        original(self, event)
        if event.iteration == 27:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Training, "_count", count)
        with pytest.raises(KeyboardInterrupt):
            train(run)
    assert read_metrics(run.folder / "metrics.jsonl")[-1]["iteration"] == 25
    train(Run.open(run.folder))
    assert identical(last_checkpoint(run), last_checkpoint(uninterrupted))
    assert logged_metrics(run) == logged_metrics(uninterrupted)


def test_dropout_continues_its_random_numbers_and_validation_takes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, origin = recipe_from_file(f"{RECIPE_FILE}:dropping")
    whole = Run.create(tmp_path / "whole", recipe, origin=origin)
    train(whole)
    run = Run.create(tmp_path / "run", recipe, origin=origin)
    with monkeypatch.context() as patch:
        interrupt_after(17, patch)
        with pytest.raises(TrainingInterrupted):
            train(run)
    torch.manual_seed(99)
    train(Run.open(run.folder, trust=True))
    assert identical(last_checkpoint(run), last_checkpoint(whole))
    often = Run.create(
        tmp_path / "often", change_settings(dropping, ["plan.validate_every=1"]), origin=origin
    )
    train(often)
    assert identical(last_checkpoint(often)["model"], last_checkpoint(whole)["model"])


def test_seed_decides_everything(uninterrupted: Run, tmp_path: Path) -> None:
    again, other = start_tiny(tmp_path / "again"), start_tiny(tmp_path / "other", seed=1)
    train(again)
    train(other)
    assert identical(last_checkpoint(again), last_checkpoint(uninterrupted))
    assert not identical(last_checkpoint(other)["model"], last_checkpoint(uninterrupted)["model"])


def test_validation_and_checkpoints_do_not_change_the_weights(
    uninterrupted: Run, tmp_path: Path
) -> None:
    run = start_tiny(tmp_path / "run", "plan.validate_every=3", "plan.checkpoint_every=7")
    train(run)
    assert identical(last_checkpoint(run)["model"], last_checkpoint(uninterrupted)["model"])


def test_finished_run_is_read_and_not_trained_again(
    uninterrupted: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Training, "run_iterations", lambda *_, **__: pytest.fail("trained again"))
    saved = train(uninterrupted)
    assert identical(dict(saved.model.state_dict()), model_file(uninterrupted)["model"])


def test_returned_model_is_the_saved_model(tmp_path: Path) -> None:
    """Evaluation uses the model in memory, so it must not differ from the file."""
    run = start_tiny(tmp_path / "run")
    returned, loaded = train(run), SavedModel.load(run)
    rows = run.recipe.data.load().test
    assert torch.equal(returned.log_density(rows), loaded.log_density(rows))
    assert identical(dict(returned.model.state_dict()), dict(loaded.model.state_dict()))
    assert returned.shape == loaded.shape
    assert returned.progress == loaded.progress


def test_only_the_most_recent_checkpoints_are_kept(uninterrupted: Run) -> None:
    names = [path.stem for path in uninterrupted.checkpoints.numbered()]
    assert names == ["00000040", "00000030"]


def test_model_is_the_moving_average_of_the_weights(uninterrupted: Run) -> None:
    weights = dict(SavedModel.load(uninterrupted).model.state_dict())
    assert identical(weights, last_checkpoint(uninterrupted)["average"]["model"])
    assert not identical(weights, last_checkpoint(uninterrupted)["model"])


def test_loss_that_is_not_finite_keeps_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_tiny(tmp_path / "run", "optimizer.lr=1e30")
    with pytest.raises(NonFiniteLossError, match=r"iteration \d+: .*there is no checkpoint"):
        train(run)
    good = start_tiny(tmp_path / "good")
    original = EBM.step

    def poisoned(self: EBM, model: nn.Module, data: Dataset) -> Step:
        step = original(self, model, data)
        assert isinstance(step, GradientStep)
        loss = step.update.loss
        step.update.loss = lambda *a: loss(*a) * (float("nan") if step.iteration == 25 else 1)
        return step

    with monkeypatch.context() as patch:
        patch.setattr(EBM, "step", poisoned)
        with pytest.raises(
            NonFiniteLossError, match=r"iteration 26: .*good checkpoint is .*00000020"
        ):
            train(good)
    train(Run.open(good.folder))
    assert good.is_trained


def test_damaged_checkpoint_falls_back_to_the_one_before(
    uninterrupted: Run, tmp_path: Path
) -> None:
    run = start_tiny(tmp_path / "run")
    train(run)
    last = run.checkpoints.numbered()[0]
    content = last.read_bytes()
    last.write_bytes(content[: 2 * len(content) // 3])
    run.model_path.unlink()
    with pytest.warns(UserWarning, match="00000040"):
        train(Run.open(run.folder))
    assert identical(last_checkpoint(run), last_checkpoint(uninterrupted))


def test_best_validation_is_remembered_after_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [4.0, 3.0, 1.0, 2.0, 2.0, 2.0]
    monkeypatch.setattr(EBM, "validate", lambda *_: {"loss": values.pop(0)})
    run = start_tiny(tmp_path / "run", "plan.validate_every=5", "plan.patience=15")
    with monkeypatch.context() as patch:
        interrupt_after(17, patch)
        with pytest.raises(TrainingInterrupted):
            train(run)
    train(Run.open(run.folder))
    assert last_checkpoint(run)["iteration"] == 25
    assert "1" in last_checkpoint(run)["ended"]
    assert "iteration 10" in last_checkpoint(run)["ended"]


def test_early_stopping_returns_the_best_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = iter([4.0, 3.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0])
    monkeypatch.setattr(EBM, "validate", lambda *_: {"loss": next(values)})
    run = start_tiny(tmp_path / "run", "plan.validate_every=5", "plan.patience=10")
    saved = train(run)
    state = last_checkpoint(run)
    assert state["iteration"] == saved.progress["iterations"] == 20
    assert "iteration 10" in state["ended"]
    best = checkpoint.load(run.checkpoints.best)["model"]
    assert identical(dict(saved.model.state_dict()), best)
    assert not identical(best, state["average"]["model"])


def test_run_does_not_continue_with_changed_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_array(tmp_path / "a.npy")
    recipe = array_recipe(path, "plan.iterations=20", "plan.checkpoint_every=5")
    run = Run.create(tmp_path / "run", recipe)
    with monkeypatch.context() as patch:
        interrupt_after(7, patch)
        with pytest.raises(TrainingInterrupted):
            train(run)
    before = path.read_bytes()
    path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    with pytest.raises(RunError, match="have changed since training started: sha256"):
        train(Run.open(run.folder))
    path.write_bytes(before)
    train(Run.open(run.folder))
    assert run.is_trained


@pytest.mark.parametrize(
    ("setting", "message"),
    [("data.validation=0", "there are no validation rows"), ("data.test=0", "no test rows")],
)
def test_missing_splits_are_refused_before_training(
    setting: str, message: str, tmp_path: Path
) -> None:
    path = write_array(tmp_path / "a.npy")
    run = Run.create(tmp_path / "run", array_recipe(path, setting))
    with pytest.raises(ValueError, match=message):
        train(run)
    assert not run.folder.exists()


def test_batch_larger_than_the_data_takes_all_rows(tmp_path: Path) -> None:
    path = write_array(tmp_path / "a.npy", rows=20)
    run = Run.create(tmp_path / "run", array_recipe(path, "plan.batch=128", "plan.iterations=5"))
    assert train(run).progress["iterations"] == 5


def test_two_processes_cannot_train_one_run(uninterrupted: Run, tmp_path: Path) -> None:
    run = start_tiny(tmp_path / "run")
    run.folder.mkdir()
    with exclusive(run.folder), pytest.raises(BusyError, match="another process"):
        train(run)
    train(run)
    assert identical(last_checkpoint(run), last_checkpoint(uninterrupted))


def test_config_records_everything_that_determines_the_run(uninterrupted: Run) -> None:
    config = uninterrupted.config
    assert config["format"] == 2
    assert (config["seed"], config["device"], config["origin"]) == (0, "cpu", {})
    assert config["shape"] == config["stored_shape"] == [2]
    recipe = config["recipe"]
    assert recipe["class"] == "paper.recipes.EBM"
    assert recipe["objective"]["projection"] == {
        "class": "fdsm.projections.Sphere", "radius": 0.1,
    }  # fmt: skip
    assert recipe["data"]["density"]["scales"] == [0.5, 0.3]
    assert recipe["plan"]["batch"] == tiny.plan.batch
    assert config["data"]["rows"] == {"train": 200, "validation": 20, "test": 20}
    model = uninterrupted.build(torch.Size([2]))
    assert config["parameters"] == sum(p.numel() for p in model.parameters())
    assert config["versions"].keys() == {"fdsm", "torch", "python"}
