import re
from pathlib import Path

import pytest

import fdsm
from benchmarks.__main__ import PROGRAMS
from benchmarks.__main__ import main as run
from benchmarks.records.files import write_results
from benchmarks.records.page import NOT_MEASURED, main, render
from benchmarks.suite import NAMES

from ..benchmark_cases import record, trainings

ROOT = Path(fdsm.__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "docs" / "page.md.jinja"
    path.parent.mkdir()
    return path


def test_tables_have_plots_a_date_and_a_machine(template: Path, tmp_path: Path) -> None:
    write_results(record(), tmp_path / "results")
    write_results(trainings(), tmp_path / "results")
    template.write_text('{{ tables("step") }}\n{{ tables("time-to-loss") }}\n{{ provenance() }}')
    page = render(template, tmp_path / "results")
    assert "| FD-SSM, fdsm | 2.00 |" in page
    assert "![step](../results/step.svg)" in page
    assert "- step, time-to-loss: measured on 2026-01-01: cores 2." in page
    assert "time-to-loss-wine.svg" in page


def test_some_modes_or_plots_alone_are_shown(template: Path, tmp_path: Path) -> None:
    write_results(record(), tmp_path / "results")
    template.write_text('{{ tables("step", "gradient") }}')
    assert "FD-SSM" in render(template, tmp_path / "results")
    template.write_text('{{ tables("step", "value") }}')
    assert render(template, tmp_path / "results") == "![step](../results/step.svg)"
    template.write_text('{{ plots("step") }}')
    assert render(template, tmp_path / "results") == "![step](../results/step.svg)"


def test_benchmarks_without_results_are_not_measured(template: Path, tmp_path: Path) -> None:
    calls = ("goals()", 'tables("step")', 'plots("step")', "provenance()", 'measured("step")')
    template.write_text(" ".join(f"{{{{ {call} }}}}" for call in calls))
    assert render(template, tmp_path) == " ".join([*[NOT_MEASURED] * 4, "False"])


def test_a_ratio_can_be_used_in_a_sentence(
    template: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_results(record(), tmp_path / "results")
    template.write_text(
        '{{ ratio("step", "tiny", "gradient", "FD-SSM", "FD-SSM", to_by="JAX jit") }} of JAX'
    )
    out = tmp_path / "docs" / "page.md"
    main([f"--template={template}", f"--results={tmp_path / 'results'}", f"--out={out}"])
    assert out.read_text() == "0.67 (0.67-1.00) of JAX"
    assert str(out) in capsys.readouterr().out


def test_the_page_is_generated_from_the_committed_results() -> None:
    page = render(ROOT / "docs/performance.md.jinja", ROOT / "benchmarks/results/costs")
    assert page == (ROOT / "docs/performance.md").read_text(encoding="utf8")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_documented_commands_have_these_names_and_options(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = page.read_text(encoding="utf8")
    for name, rest in re.findall(r"python -m benchmarks ([\w-]+)([^`#\n]*)", text):
        assert name in {*PROGRAMS, *NAMES, "all"}
        options = set(re.findall(r"--[a-z-]+", rest))
        if options:
            with pytest.raises(SystemExit):
                run([name, "--help"])
            assert options <= set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
