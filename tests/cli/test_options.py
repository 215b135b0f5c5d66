import pytest

from fdsm.cli.options import UsageError, require_device


def test_device_must_be_able_to_compute() -> None:
    assert require_device("cpu") == "cpu"
    for device in ("meta", "nonsense", "cuda:99"):
        with pytest.raises(UsageError, match=f"torch cannot use the device '{device}' here"):
            require_device(device)
