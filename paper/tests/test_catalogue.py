"""The catalogue: complete, consistent with the recipes, and as published."""

import subprocess
import sys
from collections import Counter

import pytest

from paper.catalogue import (
    BYTES,
    DEMOS,
    TARGETS,
    Target,
    UnknownTargetError,
    claim,
    find_recipes,
    published,
    recipe_of,
    target,
    target_infos,
)
from paper.targets import Scale, StudyTarget, TableTarget

TABLES = [one for one in (*TARGETS, *DEMOS) if isinstance(one, TableTarget)]
STUDIES = [one for one in TARGETS if isinstance(one, StudyTarget)]


def name_of(one: Target) -> str:
    return one.name


def test_every_table_and_figure_of_the_paper_has_a_record() -> None:
    names = [one.name for one in (*TARGETS, *DEMOS)]
    assert len(set(names)) == len(names)
    assert {f"table{i}" for i in range(1, 7)} | {f"figure{i}" for i in range(1, 5)} <= set(names)
    assert {"sensitivity", "lemma2", "theorem2", "nce_mpf", "sumo"} <= set(names)


@pytest.mark.parametrize("scale", ["cpu", "paper"])
@pytest.mark.parametrize("table", TABLES, ids=name_of)
def test_record_and_recipes_have_the_same_rows(table: TableTarget, scale: Scale) -> None:
    recipes = table.recipes(scale)
    assert recipes.keys() == table.rows.keys()
    for name, recipe in recipes.items():
        assert recipe.name == name
        assert recipe.provenance.endswith(".")


@pytest.mark.parametrize("one", STUDIES, ids=name_of)
def test_studies_exist_at_both_scales(one: StudyTarget) -> None:
    cpu, paper = one.study("cpu"), one.study("paper")
    assert type(cpu) is type(paper)
    assert cpu.provenance.endswith(".")
    assert not one.has_rows


@pytest.mark.parametrize("table", TABLES, ids=name_of)
def test_baselines_are_rows_that_are_their_own_baseline(table: TableTarget) -> None:
    for row in table.rows.values():
        if row.baseline:
            assert table.rows[row.baseline].baseline == row.baseline


@pytest.mark.parametrize("table", TABLES, ids=name_of)
def test_rows_and_their_baselines_have_the_same_kind_of_data(table: TableTarget) -> None:
    recipes = table.recipes("cpu")
    for name, row in table.rows.items():
        if row.baseline:
            assert type(recipes[name].data) is type(recipes[row.baseline].data)


def test_published_tables_are_complete() -> None:
    """Cells of the paper: 3 · 9 and 3 more of ε; 7 · 3; 8 · 3; 6 · 4; 2 · 3; 8 · 2."""
    cells = {
        one.name: sum(len(row.published) for row in one.rows.values())
        for one in TARGETS
        if isinstance(one, TableTarget)
    }
    assert cells == {
        "table1": 30, "table2": 21, "table3": 24, "table4": 24, "table5": 6, "table6": 16,
        "figure3": 0,
    }  # fmt: skip
    errors = Counter(
        one.name
        for one in TABLES
        for row in one.rows.values()
        for value in row.published.values()
        if value.error is not None
    )
    assert errors == {"table3": 16}


def test_some_published_numbers() -> None:
    assert published("table1", "WhiteWine SSMVR")["exact_sm_loss"].value == pytest.approx(-39.42)
    assert published("table3", "SSMVR")["nll"].error == 3782
    assert published("table4", "ImageNet FD-DSM")["ood_auc_cifar10"].value == pytest.approx(0.89)
    assert published("table5", "SSMVR")[BYTES].value == pytest.approx(6.4e9)
    assert published("table6", "CelebA WAE FD-SSMVR")["fid"].place == "Table 6"
    assert published("table1", "Parkinsons FD-SSM 0.05")["nll"].value == pytest.approx(13.51)
    assert published("table1", "Parkinsons FD-SSM")["nll"].value == pytest.approx(13.69)
    steps = {step: published("sensitivity", step)["nll"].value for step in ("0.1", "0.05", "0.02")}
    assert steps == {"0.1": 14.17, "0.05": 13.51, "0.02": 14.03}


def test_rows_that_are_not_in_the_paper_have_no_published_numbers() -> None:
    assert published("table1", "RedWine FD-SSM-all") == {}
    assert published("lemma2", "SSM") == {}


def test_claims_of_the_text() -> None:
    assert claim("FD-SSM", "speed_up").value == pytest.approx(2.9)
    assert claim("FD-DSM", "least_speed_up").place == "Sec. 1"
    assert claim("FD", "relative_error").value == pytest.approx(0.01)
    with pytest.raises(LookupError, match=r"no 'beauty' of 'SSM'. Available: FD-SSM least_speed"):
        claim("SSM", "beauty")


def test_report_gets_every_target_with_its_rows() -> None:
    infos = {info.name: info for info in target_infos()}
    assert list(infos) == [one.name for one in (*TARGETS, *DEMOS)]
    assert infos["table6"].rows["WAE FD-SSMVR"].baseline == "WAE SSMVR"
    assert infos["table3"].rows["MLE"].published["nll"].value == 791
    assert infos["lemma2"].rows == {}


def test_published_numbers_do_not_need_torch() -> None:
    code = (
        "import sys; from paper.catalogue import target_infos; target_infos(); "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_unknown_names_get_a_suggestion() -> None:
    with pytest.raises(UnknownTargetError, match=r"'tabel1'. Did you mean 'table1'\?"):
        target("tabel1")
    with pytest.raises(UnknownTargetError, match=r"row 'FDSSM' of table2. Did you mean 'FD-SSM'"):
        recipe_of("table2", "FDSSM", "cpu")
    with pytest.raises(UnknownTargetError, match=r"unknown row 'x'.* unknown row 'y'"):
        find_recipes(target("table5"), "cpu", ["x", "SSMVR", "y"])
    with pytest.raises(UnknownTargetError, match=r"unknown row 'SSM' of lemma2. Available: none"):
        find_recipes(target("lemma2"), "cpu", ["SSM"])


def test_chosen_rows_are_in_the_order_of_the_table() -> None:
    assert list(find_recipes(target("table5"), "cpu", ["DSM", "SSMVR"])) == ["SSMVR", "DSM"]
