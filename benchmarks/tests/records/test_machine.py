import platform
import socket
from pathlib import Path

import torch

from benchmarks.records.machine import describe_machine, processor


def test_the_machine_is_described_without_its_name_or_paths() -> None:
    found = describe_machine()
    assert torch.__version__.startswith(str(found["torch"]))  # with or without the build
    assert {"processor", "cores", "system", "python"} <= found.keys()
    text = str(found)
    assert socket.gethostname() not in text
    assert "/home" not in text
    assert str(Path.cwd()) not in text


def test_the_model_of_the_processor_is_read(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: AMD EPYC\nmodel\t: 17\n")
    assert processor(info) == "AMD EPYC"
    assert processor(tmp_path / "missing") == (platform.processor() or platform.machine())
