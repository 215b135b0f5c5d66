"""What is read, the nearest images and the chains of samples, with known answers."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from PIL import Image
from torch import Generator, Tensor

from paper.data import Dataset, Digits
from paper.data.transforms import Chain
from paper.features import Classifier
from paper.recipes import HeldOut, OODSource, Recipe, ShuffledFeatures
from paper.run_store import RunStore
from paper.runs import Run, train
from paper.studies.digit_samples import DigitSamples, chains, distances, nearest
from paper.tables import digits


class Judge:
    """Reads the first pixel: value `k` is class `k` for sure, and 255 is no class."""

    def logits(self, images: Tensor) -> Tensor:
        value = images[:, 0, 0, 0].long()
        return 50.0 * (torch.arange(10) == value[:, None])


def images(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.uint8)[:, None, None, None].expand(-1, 1, 2, 2)


def test_shares_and_classes_of_what_is_read() -> None:
    """Three of five are read, as two classes."""
    numbers = DigitSamples().reading(cast(Classifier, Judge()), images(3, 255, 7, 3, 255), "row")
    assert numbers["share that is read, row"].value == pytest.approx(0.6)
    classes = numbers["classes that occur, row"]
    assert classes.value == 2
    assert classes.settings["counts"] == [0, 0, 0, 2, 0, 0, 0, 1, 0, 0]
    everything = DigitSamples().reading(cast(Classifier, Judge()), images(*range(10)), "all")
    assert everything["share of the rarest class, all"].value == pytest.approx(0.1)


def test_accuracy_is_that_of_the_test_labels() -> None:
    x = images(0, 1, 2, 255)
    data = Dataset(x, x, x, Chain(()), {}, (torch.zeros(4),) * 2 + (torch.tensor([0, 1, 5, 6]),))
    numbers = DigitSamples().of_test_images(cast(Classifier, Judge()), data)
    assert numbers["accuracy of the classifier, test images"].value == pytest.approx(0.5)
    assert numbers["share that is read, test images"].value == pytest.approx(0.75)


def test_nearest_images_and_relative_distances() -> None:
    """Samples are 1 from a training image in each of four pixels, test images 2."""
    train, test, drawn = images(10, 50, 200), images(48, 202), images(11, 199)
    found, indices = nearest(drawn, train, 2)
    torch.testing.assert_close(found, torch.tensor([[2.0, 78.0], [2.0, 298.0]], dtype=found.dtype))
    assert indices.tolist() == [[0, 1], [2, 1]]
    data = Dataset(train, train, test, Chain(()), {})
    (relative,) = distances(drawn, data, "row").values()
    assert relative.value == pytest.approx(0.5)


def small(recipe: Recipe) -> Recipe:
    """Return a recipe of the demonstration for digits of 8 × 8, with a short training."""
    row: Any = recipe
    smaller: Recipe = replace(
        row,
        data=Digits(transform=row.data.transform),
        network=replace(row.network, width=8),
        plan=replace(row.plan, iterations=2, batch=8, validate_every=0, num_samples=2),
        sampling_levels=8,
    )
    return smaller


class Loud:
    """Noise with a hundred times the variance of the digits."""

    name = "loud"

    def rows(self, data: Dataset, generator: Generator) -> Tensor:
        return 10 * torch.randn(len(data.test), *data.shape, generator=generator)


@pytest.mark.parametrize(
    ("outside", "area"), [(Loud(), 1.0), (HeldOut("held out", 90), 0.5)], ids=["noise", "digits"]
)
def test_images_that_are_not_digits_are_detected(
    tmp_path: Path, outside: OODSource, area: float
) -> None:
    torch.set_default_dtype(torch.float32)
    saved = train(Run(tmp_path, small(digits.CPU[0])))
    study = DigitSamples(outside=outside, ood_rows=90)
    (number,) = study.detection(saved, saved.run.recipe.data.load()).values()
    assert abs(number.value - area) <= 4 * (number.error or 0.0)


def test_a_chain_ends_with_its_sample(tmp_path: Path) -> None:
    torch.set_default_dtype(torch.float32)
    saved = train(Run(tmp_path, small(digits.CPU[0])))
    shown = chains(saved, 3, 4).view(3, 4, 1, 8, 8)
    assert torch.equal(shown[:, -1], saved.sample(3, iter))
    assert not torch.equal(shown[:, 0], shown[:, -1])


def test_rows_are_judged_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_default_dtype(torch.float32)
    rows = tuple(map(small, digits.CPU))
    monkeypatch.setattr(digits, "CPU", rows)
    study = DigitSamples(
        samples=20, epochs=8, width=4, features=16, outside=ShuffledFeatures(), ood_rows=50
    )
    numbers = study.run(RunStore(tmp_path), 0, iter).numbers
    assert numbers["accuracy of the classifier, test images"].value > 0.8
    assert numbers["share that is read, EBM FD-DSM"].value <= 1
    detected = [name for name in numbers if name.startswith("OOD")]
    assert detected == [f"OOD AUC, shuffled, EBM {kind}" for kind in ("FD-DSM", "FD-SSMVR")]
    pictures = {
        f"{kind} {row.name}.png" for kind in ("sheet", "chains", "nearest") for row in rows
    }
    assert {path.name for path in (tmp_path / "digit_samples").iterdir()} == pictures
    with Image.open(tmp_path / "digit_samples" / "chains FD-SSMVR.png") as picture:
        assert picture.size == (364, 364)  # ten by ten of 8 × 8 with borders, four times
