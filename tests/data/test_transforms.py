"""Transforms are undone by their inverse, and change densities as they say."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor

from fdsm.data import (
    Affine,
    Binarize,
    CenterCrop,
    Chain,
    Dequantize,
    Flatten,
    Flip,
    Jitter,
    Logit,
    Noise,
    Pad,
    Resize,
    Standardize,
    ToFloat,
    Transform,
    Whiten,
)
from fdsm.serialize import to_json

MIXING = [[1e3, 2, 0, 1], [0, 1, 5, 0], [0, 0, 1e-3, 1], [0, 0, 0, 2]]
TABLE = torch.randn(50, 4, generator=Generator().manual_seed(0), dtype=torch.float64)
TABLE = TABLE @ torch.tensor(MIXING, dtype=torch.float64) + torch.tensor([1e4, 0, -3, 7])
LEVELS = torch.randint(256, (20, 2, 3, 4), generator=Generator().manual_seed(1), dtype=torch.uint8)
UNIT = torch.rand(20, 1, 2, 3, generator=Generator().manual_seed(2), dtype=torch.float64)

INVERTIBLE: dict[str, tuple[Transform, Tensor]] = {
    "to_float": (ToFloat(), LEVELS),
    "affine": (Affine(-2.0, 3.0), UNIT),
    "dequantise": (Dequantize(256), LEVELS),
    "jitter": (Jitter(0.1), UNIT),
    "noise": (Noise(0.1), UNIT),
    "logit": (Logit(1e-9), UNIT),
    "pad": (Pad(7), LEVELS),
    "flip": (Flip(), LEVELS),
    "flatten": (Flatten(), LEVELS),
    "standardise": (Standardize(), TABLE),
    "whiten": (Whiten(), TABLE),
    "nothing": (Chain(), UNIT),
    "nice": (
        Chain((ToFloat(), Jitter(1 / 256), Affine(0.98, 0.01), Logit(), Flatten())),
        LEVELS,
    ),
    "image-whitened": (Chain((Dequantize(), Flatten(), Standardize(), Affine(2.0))), LEVELS),
}
case = pytest.mark.parametrize("name", INVERTIBLE)


@case
def test_the_inverse_undoes_it(name: str) -> None:
    transform, x = INVERTIBLE[name]
    fitted = transform.fit(x)
    torch.testing.assert_close(
        fitted.inverse(fitted.deterministic(x)), x.double(), check_dtype=False
    )


@case
def test_log_det_is_that_of_the_jacobian(name: str) -> None:
    transform, x = INVERTIBLE[name]
    fitted = transform.fit(x)
    x = x[:3].double()

    def volume(row: Tensor) -> Tensor:
        jacobian = torch.func.jacrev(lambda r: fitted.deterministic(r[None]).flatten())(row)
        j = jacobian.reshape(jacobian.shape[0], -1)
        return torch.linalg.slogdet(j.T @ j).logabsdet / 2

    expected = torch.stack([volume(row) for row in x])
    torch.testing.assert_close(fitted.log_det(x), expected, rtol=1e-7, atol=1e-7)


@case
def test_what_was_learnt_survives_a_restart(name: str) -> None:
    transform, x = INVERTIBLE[name]
    fitted = transform.fit(x)
    again = transform.restore(fitted.state())
    y = fitted.deterministic(x)
    assert torch.equal(again.deterministic(x), y)
    assert torch.equal(again.inverse(y), fitted.inverse(y))
    assert to_json(again) == to_json(transform)


@case
def test_the_data_are_left_alone(name: str, generator: Generator) -> None:
    transform, x = INVERTIBLE[name]
    before = x.clone()
    fitted = transform.fit(x)
    fitted.inverse(fitted.sample(x, generator))
    assert torch.equal(x, before)


@case
def test_the_same_generator_gives_the_same_rows(name: str) -> None:
    transform, x = INVERTIBLE[name]
    fitted = transform.fit(x)
    first, second = (fitted.sample(x, Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(first, second)


def test_whitened_rows_have_the_identity_as_covariance() -> None:
    z = Whiten().fit(TABLE).deterministic(TABLE)
    torch.testing.assert_close(z.mean(0), torch.zeros(4), atol=1e-9, rtol=0)
    torch.testing.assert_close(z.T @ z / len(z), torch.eye(4), atol=1e-9, rtol=0)


def test_whitening_is_the_published_one() -> None:
    fitted = Whiten().fit(TABLE)
    centred = TABLE - TABLE.mean(0)
    _, s, vt = torch.linalg.svd(centred, full_matrices=False)
    published = vt.T / s * math.sqrt(len(TABLE))
    torch.testing.assert_close(fitted.deterministic(TABLE), centred @ published)


def test_whitening_float32_rows_loses_little() -> None:
    x = TABLE.float()
    fitted = Whiten().fit(x)
    z = fitted.deterministic(x)
    assert z.dtype == torch.float32
    torch.testing.assert_close(z.double(), fitted.deterministic(x.double()), atol=1e-6, rtol=1e-6)


def test_standardised_columns_have_unit_variance() -> None:
    z = Standardize().fit(TABLE).deterministic(TABLE)
    torch.testing.assert_close(z.mean(0), torch.zeros(4), atol=1e-9, rtol=0)
    torch.testing.assert_close(z.var(0, correction=0), torch.ones(4))


def test_a_chain_fits_each_step_to_the_output_of_those_before() -> None:
    fitted = Chain((Affine(2.0, 1.0), Standardize())).fit(TABLE)
    expected = Standardize().fit(2 * TABLE + 1)
    torch.testing.assert_close(fitted.state()["1.mean"], expected.state()["mean"])
    assert set(fitted.state()) == {"1.mean", "1.scale"}


def test_dequantised_levels_are_uniform_in_their_interval(generator: Generator) -> None:
    x = torch.arange(17).repeat(20_000, 1)
    y = Dequantize(17).sample(x, generator)
    assert torch.equal((y * 17).floor().long(), x)
    error = 1 / 17 / math.sqrt(12 * len(x))
    torch.testing.assert_close(
        y.mean(0), Dequantize(17).deterministic(x[:1])[0], atol=5 * error, rtol=0
    )
    torch.testing.assert_close(y.var(0), torch.full((17,), 1 / 12 / 17**2), rtol=0.05, atol=0)


@pytest.mark.parametrize(
    ("transform", "variance"), [(Jitter(0.3), 0.3**2 / 12), (Noise(0.3), 0.3**2)]
)
def test_noise_has_mean_zero_and_its_variance(
    transform: Transform, variance: float, generator: Generator
) -> None:
    x = torch.full((100_000, 1), 2.0)
    y = transform.sample(x, generator) - x
    assert abs(y.mean()) < 5 * math.sqrt(variance / len(y))
    assert y.var() == pytest.approx(variance, rel=0.03)


def test_jitter_stays_within_its_width(generator: Generator) -> None:
    y = Jitter(0.3).sample(torch.zeros(10_000, 1), generator)
    assert 0.149 < y.abs().max() <= 0.15


def test_half_of_the_images_are_mirrored(generator: Generator) -> None:
    x = torch.arange(6, dtype=torch.uint8).view(1, 1, 2, 3).repeat(10_000, 1, 1, 1)
    y = Flip().sample(x, generator)
    mirrored = (y == torch.tensor([[2, 1, 0], [5, 4, 3]])).all((1, 2, 3))
    assert ((y == x).all((1, 2, 3)) | mirrored).all()
    assert mirrored.double().mean() == pytest.approx(0.5, abs=5 * 0.005)


def test_binarised_pixels_are_one_as_often_as_they_say(generator: Generator) -> None:
    x = torch.tensor([0.0, 0.2, 0.7, 1.0]).repeat(50_000, 1)
    y = Binarize().sample(x, generator)
    assert set(y.unique().tolist()) == {0.0, 1.0}
    torch.testing.assert_close(y.mean(0), x[0], atol=5 * 0.5 / math.sqrt(len(x)), rtol=0)
    assert Binarize().deterministic(x[:1]).tolist() == [[0.0, 0.0, 1.0, 1.0]]


def test_the_clamp_of_the_logit_is_the_published_one() -> None:
    y = Logit(1e-3).deterministic(torch.tensor([[0.0, 1e-4, 0.5, 1.0]]))
    edge = math.log(0.001 / 0.999)
    torch.testing.assert_close(y, torch.tensor([[edge, edge, 0.0, -edge]]))


def test_a_crop_takes_the_middle() -> None:
    x = torch.arange(2 * 5 * 8).view(1, 2, 5, 8)
    assert torch.equal(CenterCrop(3).deterministic(x), x[..., 1:4, 2:5])


def test_resizing_averages() -> None:
    x = torch.rand(3, 1, 8, 8)
    torch.testing.assert_close(
        Resize(4).deterministic(torch.full_like(x, 0.3)), torch.full((3, 1, 4, 4), 0.3)
    )
    torch.testing.assert_close(Resize(8).deterministic(x), x)
    ramp = torch.arange(8.0).expand(1, 1, 8, 8)
    middle = Resize(4).deterministic(ramp)[0, 0, 2, 1:3]
    torch.testing.assert_close(middle, torch.tensor([2.5, 4.5]))


def test_an_odd_border_is_taken_off_again() -> None:
    x = torch.rand(2, 1, 3, 4)
    pad = Pad(8, value=-1.0).fit(x)
    y = pad.deterministic(x)
    assert y.shape == (2, 1, 8, 8)
    assert (y == -1).sum() == 2 * (64 - 12)
    assert torch.equal(pad.inverse(y), x)


def test_bytes_become_the_default_dtype() -> None:
    for transform in (ToFloat(), Dequantize(), Affine(1.0), Noise(0.0)):
        assert transform.sample(LEVELS).dtype == torch.float64


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "unfitted": (lambda: Whiten().deterministic(TABLE), r"call fit\(rows\)"),
    "unfitted-pad": (lambda: Pad(8).inverse(UNIT), "fit it to images"),
    "unfitted-flatten": (lambda: Flatten().inverse(TABLE), "fit it to data"),
    "state": (lambda: Whiten().restore({"mean": TABLE}), r"lacks \['axes', 'scales'\]"),
    "constant": (lambda: Standardize().fit(torch.ones(5, 2)), r"elements \[0, 1\]"),
    "dependent": (
        lambda: Whiten().fit(torch.cat([TABLE, TABLE[:, :1] + TABLE[:, 1:2]], 1)),
        "span only 4 dimensions",
    ),
    "few": (lambda: Whiten().fit(TABLE[:3]), "3 rows of 4 columns span only 2"),
    "nan": (lambda: Standardize().fit(TABLE / 0), "NaN or infinite"),
    "shape": (lambda: Whiten().fit(UNIT), r"put Flatten\(\) before"),
    "images": (lambda: Pad(8).deterministic(TABLE), r"\(N, C, H, W\)"),
    "too-large": (lambda: Pad(2).deterministic(LEVELS), "3x4 do not fit into 2x2"),
    "too-small": (lambda: CenterCrop(5).deterministic(LEVELS), "no middle of size 5"),
    "levels": (lambda: Dequantize(1), "at least 2 levels"),
    "top": (lambda: ToFloat(0), "at least 1"),
    "scale": (lambda: Affine(0.0), "cannot be undone"),
    "margin": (lambda: Logit(0.5), r"lie in \(0, 0.5\)"),
    "sigma": (lambda: Noise(-1.0), "not below 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_refused(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        call()
