"""Feature extractors as settings of a recipe."""

import pytest
import torch

from paper.data import DataError, Digits, ToFloat
from paper.features import ClassifierFeatures, InceptionFeatures
from paper.recipes import Frechet

CPU = torch.device("cpu")


def test_classifier_is_trained_once_and_recognizes_digits() -> None:
    source = ClassifierFeatures(Digits(transform=ToFloat(16)), images=1200, epochs=20)
    classifier = source.load()
    assert classifier is ClassifierFeatures(source.data, images=1200, epochs=20).load()
    assert float(classifier.name.split()[-1]) > 0.9
    data = source.data.load()
    real = data.transform.deterministic(data.test)
    how = Frechet(source, 150, images=150)
    near = how(lambda n: data.transform.deterministic(data.train[:n]), data, CPU).value
    far = how(lambda n: real[:n].flip(-1), data, CPU).value
    assert near < far / 2


def test_missing_inception_weights_name_the_place_for_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("FDSM_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"Put it at .*inception.*pt_inception"):
        InceptionFeatures("pt_inception-missing.pth").load()
