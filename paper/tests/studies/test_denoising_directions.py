"""Variants differ from Table 2 as named, and times are relative to DSM."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fdsm.derivatives import FiniteDifference
from paper.data import Digits, ToFloat
from paper.run_store import RunStore
from paper.studies.denoising_directions import CPU, DenoisingDirections, relative_times
from paper.tables import table2


def test_variants_change_directions_and_iterations_only() -> None:
    recipes = CPU.recipes()
    (published,) = (row for row in table2.CPU if row.name == "FD-DSM")
    assert recipes["FD-DSM, 1 directions, 1 times the iterations"].objective == published.objective
    many = recipes["FD-DSM, 16 directions, 1 times the iterations"]
    assert many.objective.objective.directions == 16  # type: ignore[attr-defined]
    assert many.objective.objective.derivative == FiniteDifference()  # type: ignore[attr-defined]
    assert many.plan.iterations == published.plan.iterations
    long = recipes["FD-DSM, 1 directions, 16 times the iterations"]
    assert long.plan.iterations == 16 * published.plan.iterations
    assert {recipe.network for recipe in recipes.values()} == {published.network}


def test_times_are_relative_to_dsm() -> None:
    (ratio,) = relative_times({"DSM": 4.0, "FD-DSM": 6.0}).values()
    assert ratio.value == pytest.approx(1.5)


def test_more_directions_are_better_and_slower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.set_default_dtype(torch.float32)
    digits = Digits(transform=ToFloat())
    monkeypatch.setattr(table2, "CPU", [replace(row, data=digits) for row in table2.CPU])
    study = DenoisingDirections(((1, 1), (8, 1)), seeds=1, iterations=30)
    numbers = study.run(RunStore(tmp_path), 0, iter).numbers
    one, many = (f"FD-DSM, {n} directions, 1 times the iterations" for n in (1, 8))
    assert numbers["loss, DSM"].value < numbers[f"loss, {one}"].value
    assert numbers[f"loss, {many}"].value < numbers[f"loss, {one}"].value
    assert (
        numbers[f"training time / DSM, {many}"].value
        > 1.5 * numbers[f"training time / DSM, {one}"].value
    )
