"""Fourier transforms, alone and in models."""

import pytest
import torch
from torch import Tensor, fft, nn
from torch.nn import functional

from fdsm.derivatives import MissingRule, Taylor, score_of

from ..agreement import assert_agrees, assert_rule
from .tensor_cases import Rule, constant, parts

OF_REAL = ("fft", "ifft", "rfft", "ihfft")
OF_COMPLEX = ("fft", "ifft", "irfft", "hfft")


def complex_of(x: Tensor) -> Tensor:
    """Return a complex tensor that depends on all elements."""
    return torch.complex(x, 2 * x.roll(1, -1))


@pytest.mark.parametrize("norm", [None, "forward", "ortho"])
@pytest.mark.parametrize("suffix", ["", "2", "n"])
@pytest.mark.parametrize("name", OF_REAL)
def test_transforms_of_real_numbers(name: str, suffix: str, norm: str | None) -> None:
    assert_rule(lambda x: parts(getattr(fft, name + suffix)(x, norm=norm)), constant(2, 3, 4))


@pytest.mark.parametrize("suffix", ["", "2", "n"])
@pytest.mark.parametrize("name", OF_COMPLEX)
def test_transforms_of_complex_numbers(name: str, suffix: str) -> None:
    assert_rule(lambda x: parts(getattr(fft, name + suffix)(complex_of(x))), constant(2, 3, 4))


CASES: dict[str, Rule] = {
    "fft": lambda x: fft.fft(x, 5, 1),
    "fft_dim": lambda x: fft.fft(x, dim=-2, norm="ortho"),
    "fft2": lambda x: fft.fft2(x, (2, 5), (0, 2)),
    "fftn_sizes": lambda x: fft.fftn(x, (2, 5)),
    "fftn_dim": lambda x: fft.fftn(x, dim=(0, -1)),
    "rfftn": lambda x: fft.rfftn(x, s=(4, 6), dim=(1, 2), norm="backward"),
    "irfft": lambda x: fft.irfft(fft.rfft(x)[..., :2], n=5),
    "irfft2": lambda x: fft.irfft2(fft.rfft2(x) * (1 + 2j), s=(3, 4)),
    "hfft": lambda x: fft.hfft(complex_of(x), n=6, dim=0),
    "fftshift": lambda x: fft.fftshift(x) * constant(2, 3, 4),
    "ifftshift": lambda x: fft.ifftshift(fft.fftshift(complex_of(x), dim=(0, 2)), dim=1),
    "stft": lambda x: torch.stft(
        x.flatten(1), 4, 2, window=torch.hann_window(4), return_complex=True
    ),
    "istft": lambda x: torch.istft(
        x.reshape(-1).stft(6, 3, window=torch.ones(6), return_complex=True) * (1 + 1j),
        6,
        3,
        window=torch.ones(6),
    ),
}


@pytest.mark.parametrize("f", CASES.values(), ids=CASES)
def test_options(f: Rule) -> None:
    assert_rule(lambda x: parts(f(x)), constant(2, 3, 4))


def test_a_window_that_depends_on_the_input_is_refused() -> None:
    f = lambda x: torch.stft(x, 4, window=x[0, :4], return_complex=True).abs().sum((1, 2))
    with pytest.raises(MissingRule, match="window"):
        Taylor().jet(f, torch.randn(2, 8), torch.randn(2, 8), 1)


class SpectralConv1d(nn.Module):
    """A Fourier layer (Li et al., 2021, Fourier neural operator), which keeps two frequencies."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 3, 2, dtype=torch.complex128))
        self.local = nn.Conv1d(2, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        low = torch.einsum("bix,iox->box", fft.rfft(x)[..., :2], self.weight)
        spectrum = functional.pad(low, (0, x.shape[-1] // 2 - 1))
        return (fft.irfft(spectrum, n=x.shape[-1]) + self.local(x)).tanh()


def test_a_fourier_layer() -> None:
    layer, x = SpectralConv1d(), torch.randn(3, 2, 8)
    f = lambda x: layer(x).square().sum((1, 2))
    assert_agrees(f, x, *layer.parameters(), orders=(1, 2, 3, 4))


def test_a_fourier_layer_that_writes_into_zeros() -> None:
    weight = torch.randn(2, 3, 2, dtype=torch.complex128)

    def f(x: Tensor) -> Tensor:
        spectrum = fft.rfft(x)
        out = torch.zeros_like(spectrum[:, :1].expand(-1, 3, -1))
        out[..., :2] = torch.einsum("bix,iox->box", spectrum[..., :2], weight)
        return fft.irfft(out, n=x.shape[-1]).sin().sum((1, 2))

    assert_agrees(f, torch.randn(3, 2, 8), weight)


def test_a_power_spectrum_and_its_score() -> None:
    weight = torch.rand(5)
    f = lambda x: -(weight * (1 + fft.rfft(x).abs() ** 2).log()).sum(1)
    x = torch.randn(3, 8)
    assert_agrees(f, x, weight, orders=(1, 2, 4))
    v = torch.randn(3, 8)
    slope = Taylor().jet(f, x, v, 2)[2]
    s = score_of(f)
    torch.testing.assert_close(Taylor().quadratic(s, x, v), (s(x), slope))


def test_types_are_kept() -> None:
    x = torch.randn(3, 8, dtype=torch.float32)
    f = lambda x: fft.irfft(fft.rfft(x) * (1 + 1j)).sin().sum(1)
    assert {y.dtype for y in Taylor().jet(f, x, x, 2)} == {torch.float32}
    assert_agrees(f, x, rtol=1e-4)
