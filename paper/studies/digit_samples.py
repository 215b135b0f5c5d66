"""Samples of digits, judged by a classifier.

A digit is read if the classifier gives one class more than 90 % of the probability. The share that
is read, the classes that occur and the distance to the nearest training images are numbers. The
folder of the study has three pictures of each row: a sheet of samples; chains from noise to digit,
one in each line; and samples, each followed by its nearest training images. Rows with a density
are also tested on images of clothes, as in Table 4.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from fdsm.evaluation import Measurement, mean_of, ood_auc
from fdsm.samplers import Progress

from ..data import Dataset, FashionMNIST
from ..features import Classifier, train_classifier
from ..recipes import HasLogDensity, OODSource, OtherDataset
from ..run_store import RunStore
from ..runs import SavedModel
from ..runs.samples import save_sample_file
from ..study import StudyResult

ACROSS = 10
"""Number of images in a line of a picture."""
NEIGHBORS = 4
"""Number of training images beside a sample."""


@dataclass(frozen=True)
class DigitSamples:
    """Judges the samples of rows of the demonstration `digits`.

    Attributes:
        rows: The rows.
        samples: Number of samples of each row.
        confidence: Probability of a class above which a digit is read.
        epochs: Number of epochs of the classifier.
        width: Number of channels of its first layer.
        features: Size of its last hidden layer.
        training_images: Number of training images of the classifier.
        outside: Images that are not digits.
        ood_rows: Number of test images of each kind in the AUC.
        reference_rows: Number of training images for the mean log-density in the typicality.
    """

    rows: tuple[str, ...] = ("EBM FD-DSM", "EBM FD-SSMVR", "FD-SSMVR")
    samples: int = 1000
    confidence: float = 0.9
    epochs: int = 3
    width: int = 16
    features: int = 64
    training_images: int = 60_000
    outside: OODSource = OtherDataset("fashion", FashionMNIST())
    ood_rows: int = 2000
    reference_rows: int = 5000
    provenance: ClassVar[str] = (
        "A demonstration, not in the paper. The classifier has three convolutions and two linear "
        "layers, and is trained on training images only. The AUC is that of Table 4, for the "
        "density at the smallest noise level."
    )

    def run(self, store: RunStore, seed: int, progress: Progress) -> StudyResult:
        """Return the shares of digits that the classifier reads, and write the pictures.

        Args:
            store: The runs of the demonstration, trained first if necessary.
            seed: Seed of the runs and of the classifier.
            progress: Wraps the loop over rows to show its progress.
        """
        numbers: dict[str, Measurement] = {}
        for i in progress(range(len(self.rows))):
            row = self.rows[i]
            saved = store.trained("digits", row, seed)
            data = saved.run.recipe.data.load()
            judge = self.judge(data, seed)
            if not i:
                numbers |= self.of_test_images(judge, data)
            images = saved.sample(self.samples, iter)
            numbers |= self.reading(judge, images, row)
            numbers |= distances(images, data, row)
            numbers |= self.detection(saved, data)
            draw_pictures(store.root / "digit_samples", row, saved, images, data)
        return StudyResult(numbers)

    def judge(self, data: Dataset, seed: int) -> Classifier:
        """Return the classifier, trained on training images as they are stored."""
        assert data.labels is not None
        return train_classifier(
            data.train[: self.training_images],
            data.labels[0][: self.training_images],
            seed=seed,
            epochs=self.epochs,
            width=self.width,
            features=self.features,
        )

    def of_test_images(self, judge: Classifier, data: Dataset) -> dict[str, Measurement]:
        """Return the accuracy of the classifier on test images, and how many it reads."""
        assert data.labels is not None
        confidence, guesses = read_digits(judge, data.test)
        return {
            "accuracy of the classifier, test images": mean_of(
                (guesses == data.labels[2]).double()
            ),
            "share that is read, test images": mean_of((confidence > self.confidence).double()),
        }

    def reading(self, judge: Classifier, images: Tensor, name: str) -> dict[str, Measurement]:
        """Return the share of images that is read as digits, and the shares of the classes.

        Args:
            judge: The classifier.
            images: The images, as bytes.
            name: Name of the images.
        """
        confidence, guesses = read_digits(judge, images)
        read = confidence > self.confidence
        counts = guesses[read].bincount(minlength=ACROSS)
        return {
            f"share that is read, {name}": mean_of(read.double()),
            f"classes that occur, {name}": Measurement(
                int((counts > 0).sum()), settings={"counts": counts.tolist()}
            ),
            f"share of the rarest class, {name}": Measurement(
                counts.min().item() / max(1, int(counts.sum()))
            ),
        }

    def detection(self, saved: SavedModel, data: Dataset) -> dict[str, Measurement]:
        """Return the AUC of images that are not digits. Scores have no density and no AUC."""
        run = saved.run
        if not isinstance(run.recipe, HasLogDensity):
            return {}
        generator = run.generator("outside")
        others = self.outside.rows(data, generator)
        train, test = map(data.transform.deterministic, (data.train, data.test))
        area = ood_auc(
            run.recipe.log_density(saved.model),
            train[: self.reference_rows],
            test[: self.ood_rows],
            others[: self.ood_rows],
            generator=generator,
        )
        return {f"OOD AUC, {self.outside.name}, {run.recipe.name}": area}


def read_digits(judge: Classifier, images: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest probability of each image, and its class."""
    parts = [judge.logits(part).softmax(1).max(1) for part in torch.split(images, 1000)]
    return torch.cat([part.values for part in parts]), torch.cat([part.indices for part in parts])


def nearest(images: Tensor, train: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the distances to the nearest training images and their indices, `(N, count)`.

    Args:
        images: The images, as bytes.
        train: The training images, as bytes.
        count: Number of neighbors.
    """
    rows = train.flatten(1).float()
    parts = [
        torch.cdist(part.flatten(1).float(), rows).topk(count, largest=False)
        for part in torch.split(images, 100)
    ]
    return torch.cat([part.values for part in parts]), torch.cat([part.indices for part in parts])


def distances(images: Tensor, data: Dataset, name: str) -> dict[str, Measurement]:
    """Return the mean distance to the nearest training image, relative to that of test images.

    It is zero if samples are copies of training images.
    """
    few = min(len(images), len(data.test), 500)
    ours, true = (
        nearest(some[:few], data.train, 1)[0].double().mean() for some in (images, data.test)
    )
    return {
        f"relative distance to the nearest training image, {name}": Measurement(float(ours / true))
    }


def chains(saved: SavedModel, count: int, shown: int) -> Tensor:
    """Return states of the sampler from noise to sample, `(count * shown, *E)`, chain by chain.

    Args:
        saved: The model.
        count: Number of chains.
        shown: Number of states of each chain, evenly spaced; the last one is the sample.
    """
    states: list[Tensor] = []
    hook = saved.model.register_forward_pre_hook(
        lambda module, inputs: states.append(inputs[0].detach().clone())
    )
    try:
        samples = saved.sample(count, iter)
    finally:
        hook.remove()
    chosen = [states[round(i * (len(states) - 1) / (shown - 1))] for i in range(shown - 1)]
    images = [saved.transform.inverse(state.cpu()) for state in chosen]
    clipped = [image.clamp(0, saved.max_value).to(samples.dtype) for image in images]
    return torch.stack([*clipped, samples], 1).flatten(0, 1)


def draw_pictures(
    folder: Path, row: str, saved: SavedModel, images: Tensor, data: Dataset
) -> Iterable[Path]:
    """Write the three pictures of a row and return their files."""
    few = images[: ACROSS * ACROSS // (1 + NEIGHBORS)]
    _, indices = nearest(few, data.train, NEIGHBORS)
    beside = torch.cat([few[:, None], data.train[indices]], 1).flatten(0, 1)
    pictures = {
        "sheet": images[: ACROSS * ACROSS],
        "chains": chains(saved, ACROSS, ACROSS),
        "nearest": beside,
    }
    folder.mkdir(parents=True, exist_ok=True)
    return [
        save_sample_file(folder / f"{name} {row}.png", shown, saved.max_value)
        for name, shown in pictures.items()
    ]


CPU = DigitSamples()
"""A quarter of an hour on one core, if the runs exist."""

PAPER = CPU
"""The same."""
