from pathlib import Path

import pytest

from paper.lock import BusyError, exclusive


def test_only_one_process_can_lock_a_folder(tmp_path: Path) -> None:
    with (
        exclusive(tmp_path),
        pytest.raises(BusyError, match="another process"),
        exclusive(tmp_path),
    ):
        pass
    with exclusive(tmp_path):
        pass
