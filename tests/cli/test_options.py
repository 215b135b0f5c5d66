import pytest
import torch

from fdsm.cli.options import UsageError, require_device, set_threads


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
