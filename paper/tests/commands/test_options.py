from pathlib import Path

import pytest
import torch

from paper.commands.options import UsageError, require_device, resume_command, set_threads
from paper.runs import Run
from paper.tests.recipes.recipe_cases import tiny


def test_threads_are_set_unless_they_are_not_given() -> None:
    before = torch.get_num_threads()
    set_threads(None)
    assert torch.get_num_threads() == before
    set_threads(2)
    assert torch.get_num_threads() == 2
    set_threads(before)
    with pytest.raises(UsageError, match="--threads must be at least 1, but is 0"):
        set_threads(0)


def test_device_must_be_able_to_compute() -> None:
    assert require_device(None) == require_device("cpu") == "cpu"
    for device in ("meta", "nonsense", "cuda:99"):
        with pytest.raises(UsageError, match=f"torch cannot use the device '{device}' here"):
            require_device(device)


def test_command_that_resumes_a_run_is_quoted_and_trusts_its_file() -> None:
    folder = Path("my run")
    assert resume_command(Run(folder, tiny)) == "python -m paper train --resume 'my run'"
    run = Run(folder, tiny, origin={"file": "mine.py", "name": "tiny"})
    assert resume_command(run) == "python -m paper train --resume 'my run' --trust"
