"""The classifier learns and is reproducible."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from fdsm.evaluation import fid
from paper.features import Classifier, train_classifier


def bars(n: int, size: int = 8) -> tuple[Tensor, Tensor]:
    """Noisy images of bytes with a bright row, whose position is the class."""
    draw = Generator().manual_seed(3)
    labels = torch.randint(4, (n,), generator=draw)
    images = 100 * torch.rand(n, 1, size, size, generator=draw)
    rows = torch.arange(size).view(1, 1, size, 1) // (size // 4) == labels.view(-1, 1, 1, 1)
    return (images + 120 * rows).to(torch.uint8), labels


@pytest.fixture(scope="module")
def trained() -> Classifier:
    return train_classifier(*bars(1200), seed=1, epochs=4)


def test_accuracy_agrees_with_that_on_new_images(trained: Classifier) -> None:
    assert trained.accuracy is not None
    assert trained.accuracy.value > 0.95
    assert trained.accuracy.settings == {"epochs": 4, "trained_on": 1080, "rows": 120}
    images, labels = bars(3000)
    new = (trained.logits(images[1200:]).argmax(1) == labels[1200:]).double().mean()
    assert abs(new - trained.accuracy.value) < 0.04
    assert "seed 1" in trained.name
    assert f"{trained.accuracy.value:.4f}" in trained.name


def test_random_labels_have_an_accuracy_of_chance() -> None:
    """The accuracy is measured on held-out images, so memorizing does not help."""
    images, labels = bars(400)
    shuffled = labels[torch.randperm(400, generator=Generator().manual_seed(0))]
    model = train_classifier(images, shuffled, epochs=4, held_out=0.5)
    assert model.accuracy is not None
    assert abs(model.accuracy.value - 0.25) < 0.11


def test_the_result_depends_only_on_the_seed() -> None:
    images, labels = bars(200)
    states = []
    for elsewhere, seed in ((0, 5), (1, 5), (0, 6)):
        torch.manual_seed(elsewhere)
        before = torch.random.get_rng_state()
        states.append(train_classifier(images, labels, seed=seed, epochs=1).state_dict())
        assert torch.equal(torch.random.get_rng_state(), before)
    first, same, other = states
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])


@pytest.mark.parametrize(("channels", "size"), [(1, 8), (1, 28), (3, 32)])
def test_images_may_have_any_size(channels: int, size: int) -> None:
    images = torch.rand(20, channels, size, size)
    model = train_classifier(images, torch.arange(20) % 2, epochs=1, width=4, features=10)
    features = model(images)
    assert features.shape == (20, 10)
    assert not features.requires_grad
    assert torch.equal(model.head(features), model.logits(images))


def test_uint8_and_floating_point_images_give_the_same_features(trained: Classifier) -> None:
    images, _ = bars(10)
    torch.testing.assert_close(trained(images), trained(images / 255), rtol=1e-5, atol=1e-5)


def test_distance_detects_missing_classes(trained: Classifier) -> None:
    images, labels = bars(1200)
    same = fid(trained, images[:600], images[600:])
    part = images[600:][labels[600:] < 2]
    assert fid(trained, images[:600], part).value > 10 * same.value
    assert same.settings["features"] == trained.name


def test_invalid_arguments_are_refused() -> None:
    images, labels = bars(20)
    for bad in (
        lambda: train_classifier(images, labels[:-1]),
        lambda: train_classifier(images[:, 0], labels),
        lambda: train_classifier(images, labels, held_out=0.0),
        lambda: train_classifier(images, labels, held_out=1.0),
    ):
        with pytest.raises(ValueError, match="a fraction of held-out images"):
            bad()


@pytest.mark.nightly
def test_mnist() -> None:
    folder = os.environ.get("FDSM_DATA")
    if folder is None or not (Path(folder) / "mnist" / "train-images-idx3-ubyte.gz").exists():
        pytest.skip("set FDSM_DATA to a folder with MNIST")

    def read(name: str, offset: int) -> Tensor:
        with gzip.open(Path(folder) / "mnist" / name) as file:
            return torch.from_numpy(np.frombuffer(file.read(), np.uint8, offset=offset).copy())

    images = read("train-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28)[:10_000]
    labels = read("train-labels-idx1-ubyte.gz", 8)[:10_000]
    model = train_classifier(images, labels)
    assert model.accuracy is not None
    assert model.accuracy.value > 0.96
