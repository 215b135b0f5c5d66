"""Files are replaced whole or not at all."""

from pathlib import Path

import pytest

from fdsm.files import replacing


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    for text in ("old", "new"):
        with replacing(path) as draft:
            draft.write_text(text)
        assert path.read_text() == text
    with pytest.raises(KeyboardInterrupt):
        _interrupted(path)
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def _interrupted(path: Path) -> None:
    with replacing(path) as draft:
        draft.write_text("half")
        raise KeyboardInterrupt
