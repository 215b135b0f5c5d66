"""The published numbers: named as the recipes are, and in agreement with what the text says."""

import subprocess
import sys
from collections import Counter

import pytest

from fdsm.paper.published import BYTES, PUBLISHED, claim, published
from fdsm.paper.tables import table1 as dkef_uci
from fdsm.paper.tables import table2 as deep_ebm
from fdsm.paper.tables import table3 as nice_mnist
from fdsm.paper.tables import table4 as ood
from fdsm.paper.tables import table5 as ncsn
from fdsm.paper.tables import table6_celeba as autoencoder_celeba
from fdsm.paper.tables import table6_mnist as autoencoder_mnist

ROWS = {
    "table1": dkef_uci.PAPER,
    "table2": deep_ebm.PAPER,
    "table3": nice_mnist.PAPER,
    "table4": ood.PAPER,
    "table5": ncsn.PAPER,
    "table6": (*autoencoder_mnist.PAPER, *autoencoder_celeba.PAPER),
}


@pytest.mark.parametrize("target", ROWS)
def test_every_published_row_has_a_recipe_of_its_name(target: str) -> None:
    assert PUBLISHED[target].keys() <= {row.name for row in ROWS[target]}


def test_the_tables_are_whole() -> None:
    """Cells of the paper: 3 · 9 and 3 more of ε; 7 · 3; 8 · 3; 6 · 4; 2 · 3; 8 · 2."""
    cells = {name: sum(map(len, rows.values())) for name, rows in PUBLISHED.items()}
    tables = {name: count for name, count in cells.items() if name.startswith("table")}
    assert tables == {
        "table1": 30, "table2": 21, "table3": 24, "table4": 24, "table5": 6, "table6": 16,
    }  # fmt: skip
    errors = Counter(
        name
        for name, rows in PUBLISHED.items()
        for row in rows.values()
        for one in row.values()
        if one.error is not None
    )
    assert errors == {"table3": 16}


def test_some_numbers_by_hand() -> None:
    assert published("table1", "WhiteWine SSMVR")["exact_sm_loss"].value == pytest.approx(-39.42)
    assert published("table3", "SSMVR")["nll"].error == 3782
    assert published("table4", "ImageNet FD-DSM")["ood_auc_cifar10"].value == pytest.approx(0.89)
    assert published("table5", "SSMVR")[BYTES].value == pytest.approx(6.4e9)
    assert published("table6", "CelebA WAE FD-SSMVR")["fid"].place == "Table 6"
    assert published("table1", "Parkinsons FD-SSM 0.05")["nll"].value == pytest.approx(13.51)
    steps = {row: one["nll"].value for row, one in PUBLISHED["sensitivity"].items()}
    assert steps == {"0.1": 14.17, "0.05": 13.51, "0.02": 14.03, "0.01": 14.0}
    assert published("table1", "Parkinsons FD-SSM")["nll"].value == pytest.approx(13.69)


def test_what_is_claimed_in_the_text() -> None:
    assert claim("FD-SSM", "speed_up").value == pytest.approx(2.9)
    assert claim("FD-DSM", "least_speed_up").place == "Sec. 1"
    assert claim("FD", "relative_error").value == pytest.approx(0.01)
    with pytest.raises(LookupError, match="no 'beauty' of 'SSM', but FD-SSM least_speed_up, "):
        claim("SSM", "beauty")


def test_there_is_nothing_on_rows_of_ours() -> None:
    assert published("table1", "RedWine FD-SSM-all") == {}
    assert published("nothing", "SSM") == {}


def test_what_is_returned_can_be_changed_without_harm() -> None:
    published("table5", "SSMVR").clear()
    assert published("table5", "SSMVR")["fid"].value == pytest.approx(41.2)


def test_the_numbers_need_no_torch() -> None:
    code = "import fdsm.paper.published, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
