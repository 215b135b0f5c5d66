"""Every number of a document comes from a result file, or the document is not written."""

import subprocess
import sys
from pathlib import Path

import pytest

from paper.document import MissingResultError, main, render, write
from paper.tests.report.report_cases import edit, write_results, write_row, write_study


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return write_results(tmp_path / "results")


def rendered(results: Path, text: str) -> str:
    template = results.parent / "docs" / "page.md.jinja"
    template.parent.mkdir(exist_ok=True)
    template.write_text(text, encoding="utf-8")
    return render(template, results)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('value("table1", "RedWine FD-SSM", "nll")', "13.10 ± 0.10"),
        ('value("table1", "RedWine FD-SSM", "milliseconds_per_iteration")', "15"),
        ('value("table1", "RedWine FD-SSM", "bytes")', "15 MB"),
        ('mean("table1", "RedWine SSM", "nll") > 13.25', "True"),
        ('spread("table1", "RedWine SSM", "nll")', "13.1 to 13.5"),
        ('seeds("table1", "RedWine SSM")', "2"),
        ('published("table1", "RedWine FD-SSM", "nll")', "13.06"),
        ('published("table1", "RedWine FD-SSM", "exact_sm_loss")', "−30.34"),
        ('published("table2", "FD-SSM", "bytes")', "3.4 GB"),
        ('published("table3", "MLE", "nll")', "791 ± 14"),
        ('ratio("table1", "RedWine FD-SSM-all", "RedWine SSM")', "0.60"),
        ('ratio("table1", "RedWine SSM", "RedWine FD-SSM-all", "bytes")', "1.67"),
        ('published_ratio("table1", "RedWine FD-SSM", "RedWine SSM")', "0.73"),
        ('difference("table1", "RedWine FD-SSM", "RedWine SSM", "nll")', "−0.20 ± 0.10"),
        ('test_set_error("table1", "RedWine FD-SSM", "nll")', "0.4"),
        ('claim("FD-SSM", "speed_up")', "2.9"),
        ('published("sensitivity", "0.05", "nll")', "13.51"),
        ('number("figure2", "autodiff_growth")', "2.90 ± 0.10"),
        ('real("figure2", "autodiff_growth") < 3', "True"),
        ('measured("table1", "RedWine SSM", "nll")', "True"),
        ('measured("table1", "RedWine SSM", "fid")', "False"),
        ('is_published("table1", "RedWine SSM", "nll")', "True"),
        ('is_published("table1", "RedWine FD-SSM-all", "nll")', "False"),
        ('setting("figure2", "autodiff_growth", "to")', "8"),
        ('duration("table1", "RedWine SSM")', "9 s"),
        ('durations().splitlines()[-2]', "| table1 | 72 s |"),
        ('durations().splitlines()[-1]', "| theorem2 | 61 s |"),
        ('samples("figure3", "MNIST FD-DSM")',
         "![MNIST FD-DSM, seed 0](../results/figure3/MNIST%20FD-DSM/0/samples.png)"),
    ],
)  # fmt: skip
def test_functions_of_a_template(results: Path, expression: str, expected: str) -> None:
    """The difference is -0.1 with one seed and -0.3 with the other."""
    assert rendered(results, f"{{{{ {expression} }}}}\n") == expected + "\n"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            'value("table1", "RedWine FD-SSM", "fid")',
            "'fid' of 'RedWine FD-SSM' of table1 was not",
        ),
        (
            'value("table1", "WhiteWine SSM", "nll")',
            "no row 'WhiteWine SSM' of table1 .* RedWine S",
        ),
        ('value("table5", "SSMVR", "fid")', "there is no run of table5 in "),
        ('table("table1", data="WhiteWine")', r"table1 on 'WhiteWine' \(available: RedWine\)"),
        ('table("table1", columns=["fid"])', "no column 'fid'"),
        ('published("table1", "RedWine FD-SSM-all", "nll")', "the paper has no 'nll'"),
        ('ratio("table1", "RedWine SSM", "nobody")', "no row 'nobody'"),
        ('test_set_error("table1", "RedWine SSM", "bytes")', "has no error of its own"),
        (
            'claim("FD-SSM", "beauty")',
            "has no 'beauty' of 'FD-SSM'",
        ),
        ('number("figure2", "shrinkage")', "no number 'shrinkage' in figure2 .* autodiff_growth"),
        ('number("figure4", "x")', "no study 'figure4'"),
        ('figure("sumo")', "no study 'sumo'"),
        ('samples("table1", "RedWine SSM")', "no samples of 'RedWine SSM'"),
        ('samples("figure3", "MNIST DSM", seed=7)', "no samples of 'MNIST DSM' with seed 7"),
        ('provenance("lemma2")', "no run of lemma2"),
        ('picture("figure2", "sheet")', "no picture .*figure2/sheet.png"),
    ],
)
def test_missing_result_is_an_error(results: Path, expression: str, message: str) -> None:
    with pytest.raises(MissingResultError, match=message):
        rendered(results, f"{{{{ {expression} }}}}")


def test_unfinished_run_has_no_result(results: Path) -> None:
    for seed in "01":
        (results / "table1" / "RedWine SSM" / seed / "result.json").unlink()
    for metric in ("nll", "milliseconds_per_iteration"):
        with pytest.raises(MissingResultError, match="was not measured"):
            rendered(results, f'{{{{ value("table1", "RedWine SSM", "{metric}") }}}}')


def test_single_seed_is_marked(results: Path) -> None:
    (results / "table1" / "RedWine SSM" / "0" / "config.json").unlink()
    text = rendered(results, '{{ value("table1", "RedWine SSM", "nll") }}')
    assert text == "13.50 ± 0.40 (one seed)"


def test_times_that_were_not_interleaved_are_not_compared(results: Path) -> None:
    edit(results / "table1" / "RedWine SSM" / "0" / "result.json", {"timed_with": None})
    with pytest.raises(MissingResultError, match="not timed interleaved"):
        rendered(results, '{{ ratio("table1", "RedWine FD-SSM", "RedWine SSM") }}')
    assert rendered(results, '{{ ratio("table1", "RedWine FD-SSM", "RedWine SSMVR") }}') == "0.62"


def test_differences_are_taken_seed_by_seed(results: Path) -> None:
    edit(results / "table1" / "RedWine SSM" / "1" / "config.json", {"seed": 7})
    difference = rendered(
        results, '{{ difference("table1", "RedWine FD-SSM", "RedWine SSM", "nll") }}'
    )
    assert difference == "−0.1"
    edit(results / "table1" / "RedWine SSM" / "0" / "config.json", {"seed": 8})
    with pytest.raises(MissingResultError, match="no seed in common"):
        rendered(results, '{{ difference("table1", "RedWine FD-SSM", "RedWine SSM", "nll") }}')


def test_pictures_of_studies_are_linked(results: Path) -> None:
    (results / "figure2" / "sheet of a row.png").touch()
    assert rendered(results, '{{ picture("figure2", "sheet of a row") }}') == (
        "![sheet of a row](../results/figure2/sheet%20of%20a%20row.png)"
    )


def test_ambiguous_rows_are_refused(results: Path) -> None:
    folder = results / "table1" / "again" / "0"
    write_row(folder, "table1", "RedWine SSM", 0, {"metrics": {}}, "RedWine")
    edit(folder / "config.json", {"recipe.plan.validate_every": 9})
    with pytest.raises(MissingResultError, match="several rows 'RedWine SSM' of table1"):
        rendered(results, '{{ value("table1", "RedWine SSM", "nll") }}')
    edit(folder / "config.json", {"origin.scale": "paper"})
    with pytest.raises(MissingResultError, match="more than one scale"):
        rendered(results, '{{ table("table1") }}')
    write_study(results / "more" / "figure2")
    with pytest.raises(MissingResultError, match="more than one study 'figure2'"):
        rendered(results, '{{ figure("figure2") }}')


def test_a_table_of_chosen_rows(results: Path) -> None:
    text = rendered(
        results, '{{ table("table1", columns=["nll", "seeds"], rows=["RedWine SSMVR"]) }}'
    )
    assert text.splitlines()[:3] == [
        "| method | NLL (nats) | NLL (nats), published | seeds |",
        "| :-- | --: | --: | --: |",
        "| RedWine SSMVR | 13.10 ± 0.20 | 13.13 | 2 |",
    ]
    assert "| autodiff growth | 2.90 ± 0.10 |" in rendered(results, '{{ table("figure2") }}')


def test_figures_are_written_and_linked(results: Path) -> None:
    text = rendered(results, '{{ figure("figure2") }}')
    assert text == (
        "**Error against order**\n\n"
        "![Error against order](../results/figures/figure2-1.svg)\n\n"
        "Bands: one standard error. Dashed: reference."
    )
    (file,) = (results / "figures").iterdir()
    first = file.read_bytes()
    assert rendered(results, '{{ figure("figure2") }}') == text
    assert file.read_bytes() == first


def test_study_without_panels_cannot_be_plotted(results: Path) -> None:
    edit(results / "figure1" / "study.json", {"findings.panels": []})
    with pytest.raises(MissingResultError, match="has nothing to plot"):
        rendered(results, '{{ figure("figure1") }}')


def test_provenance_names_time_and_versions(results: Path) -> None:
    assert rendered(results, '{{ provenance("table1") }}') == (
        "Run on 16 November 2026, 01:02 – 02:02, with fdsm 0.1.0, torch 2.13.0, python 3.11.9. "
        "2 seeds, 72 s of training."
    )
    study = rendered(results, '{{ provenance("figure2") }}')
    assert study.startswith("Sec. 3.3; the range of T is ours.\n\nRun on 16 November 2026, 05:02")


def test_legend_explains_metrics(results: Path) -> None:
    text = rendered(results, '{{ legend("nll", "bytes") }}')
    assert text.splitlines()[0] == (
        "- *NLL (nats)*: Negative log-likelihood per test row. Lower is better."
    )


def test_file_is_replaced_only_by_a_complete_document(results: Path, tmp_path: Path) -> None:
    template, out = tmp_path / "t.jinja", tmp_path / "deep" / "er" / "out.md"
    template.write_text('# {{ number("figure2", "autodiff_growth") }}\n')
    assert write(template, results, out) == out
    assert out.read_text() == "# 2.90 ± 0.10\n"
    template.write_text('{{ samples("figure3", "MNIST DSM") }}{{ nothing }}')
    with pytest.raises(Exception, match="'nothing' is undefined"):
        write(template, results, out)
    assert out.read_text() == "# 2.90 ± 0.10\n"
    template.write_text('{{ samples("figure3", "MNIST DSM") }}')
    main([f"--template={template}", f"--results={results}", f"--out={out}"])
    link = out.read_text().partition("](")[2].rstrip(")")
    assert (out.parent / link.replace("%20", " ")).resolve().is_file()


def test_module_is_a_command(results: Path, tmp_path: Path) -> None:
    (tmp_path / "t.jinja").write_text('{{ number("figure1", "autodiff_growth") }}')
    command = [sys.executable, "-W", "error", "-m", "paper.document"]
    done = subprocess.run(
        [*command, "--template", "t.jinja", "--results", "results", "--out", "o.md"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "o.md\n"
    assert (tmp_path / "o.md").read_text() == "2.90 ± 0.10"


def test_errors_of_table_1_include_the_sensitivity_to_kernels(results: Path) -> None:
    """Two seeds: 0.1² + 0.5² / 2 = 0.135, and for a difference 0.1² + 2 · 0.5² / 2 = 0.26."""
    value = '{{ value("table1", "RedWine FD-SSM", "nll") }}'
    difference = '{{ difference("table1", "RedWine FD-SSM", "RedWine SSM", "nll") }}'
    differs = '{{ differs("table1", "RedWine FD-SSM", "RedWine SSM", "nll") }}'
    has = '{{ has("kernels", "standard deviation of a run, RedWine, nll") }}'
    texts = [value, difference, differs, has]
    without = [rendered(results, text).strip() for text in texts]
    assert without == ["13.10 ± 0.10", "−0.20 ± 0.10", "False", "False"]
    number = {"value": 0.5, "error": None, "settings": {}}
    findings = {"standard deviation of a run, RedWine, nll": number}
    write_study(results / "kernels", findings={"numbers": findings, "panels": []})
    included = [rendered(results, text).strip() for text in texts]
    assert included == ["13.10 ± 0.37", "−0.20 ± 0.51", "False", "True"]
    table = rendered(results, '{{ table("table1", columns=["nll"], rows=["RedWine FD-SSM"]) }}')
    assert "13.10 ± 0.37" in table


def test_a_difference_counts_if_it_exceeds_two_errors(results: Path) -> None:
    """13.0 and 13.2 against 13.4 twice: the mean is -0.3, the error 0.1."""
    text = '{{ differs("table1", "RedWine FD-SSM", "RedWine FD-SSM-all", "nll") }}'
    assert rendered(results, text).strip() == "True"


def test_runs_whose_estimates_agree_are_counted(results: Path) -> None:
    """Of eight runs, one agrees and one does not; the others say nothing."""
    folder = results / "table1" / "RedWine SSM"
    for seed, consistent in (("0", True), ("1", False)):
        edit(folder / seed / "result.json", {"metrics.nll.settings": {"consistent": consistent}})
    text = rendered(results, '{{ agreement("table1", "RedWine", "nll") }}')
    assert text.strip() == "1 of 8"
