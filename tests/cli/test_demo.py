from dataclasses import replace
from pathlib import Path

import pytest

from fdsm.paper.tables import digits

from ..recipes.recipe_cases import tiny
from .cli_cases import run_text


def test_demo_compares_five_methods_and_keeps_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [row.name for row in digits.CPU]
    assert names == ["DSM", "FD-DSM", "SSM", "FD-SSM", "Taylor-SSM"]
    monkeypatch.setattr(digits, "CPU", tuple(replace(tiny, name=name) for name in names))
    out, _ = run_text(["demo", "--out", "demo"], capsys)
    for name in names:
        assert name in out
    (page,) = Path("demo").glob("*.html")
    assert "Five objectives on handwritten digits" in page.read_text(encoding="utf-8")
    models = sorted(Path("demo").rglob("model.safetensors"))
    assert len(models) == 5
    before = [path.read_bytes() for path in models]
    run_text(["demo", "--out", "demo"], capsys)
    assert [path.read_bytes() for path in models] == before
