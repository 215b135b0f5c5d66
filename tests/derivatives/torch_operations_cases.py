"""Models with Fourier transforms, decompositions of matrices, groups and recurrent layers."""

from collections.abc import Callable

import torch
from torch import Tensor, fft, linalg, nn

from .public_models_cases import Case, Model, density_of


class FourierLayer(nn.Module):
    """A layer of a Fourier neural operator (Li et al., 2021), which keeps two frequencies."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 3, 2, dtype=torch.complex128) / 2)
        self.local = nn.Conv1d(2, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.einsum("bik,iok->bok", fft.rfft(x)[..., :2], self.weight)
        return (fft.irfft(spectrum, n=x.shape[-1]) + self.local(x)).tanh()


def filtered(x: Tensor) -> Tensor:
    """Return images after a low-pass filter in the frequency domain."""
    spectrum = fft.fftshift(fft.fft2(x), dim=(-2, -1))
    return fft.ifft2(fft.ifftshift(spectrum * torch.linspace(0, 1, 4), dim=(-2, -1))).real


def of_matrices(f: Callable[[Tensor], Tensor]) -> Model:
    """Return a model with a function of 3 x 3 matrices that a network computes."""
    module = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 9))
    return density_of(module, 3, f=lambda x: f(module(x).unflatten(1, (3, 3))))


def gaussian(x: Tensor) -> Tensor:
    """Return the logarithm of a Gaussian density with a covariance that depends on the point."""
    factor = x.tril(-1) + torch.diag_embed(x.diagonal(dim1=-2, dim2=-1).exp())
    y = x[:, :, :1].sin()
    return (y * torch.cholesky_solve(y, factor)).sum((1, 2)) / 2


def graph(reduce: str) -> Model:
    """Return a layer that reduces messages along the edges of a graph."""
    source, target = torch.tensor([[0, 1, 2, 3, 0, 2], [1, 2, 3, 0, 2, 0]])
    module = nn.Linear(2, 3)

    def f(x: Tensor) -> Tensor:
        messages = module(x[:, source]).tanh()
        index = target[:, None].expand(len(x), -1, 3)
        return x.new_ones(len(x), 4, 3).scatter_reduce(1, index, messages, reduce)

    return density_of(module, 4, 2, f=f)


def recurrent(module: nn.RNNBase) -> Model:
    return density_of(module, 4, 3, f=lambda x: module(x)[0])


OPERATIONS: dict[str, Case] = {
    "FNO layer": Case(lambda: density_of(FourierLayer(), 2, 6)),
    "fft2, low-pass filter": Case(
        lambda: density_of(m := nn.Conv2d(1, 2, 2), 1, 4, 4, f=lambda x: m(filtered(x)).tanh())
    ),
    "power spectrum": Case(
        lambda: density_of(m := nn.Linear(4, 6), 4, f=lambda x: fft.rfft(m(x)).abs().log1p())
    ),
    "eigvalsh": Case(lambda: of_matrices(lambda a: linalg.eigvalsh(a + a.mT))),
    "eigh": Case(lambda: of_matrices(lambda a: linalg.eigh(a + a.mT).eigenvectors.square())),
    "svdvals": Case(lambda: of_matrices(lambda a: linalg.svdvals(a).log())),
    "nuclear norm": Case(lambda: of_matrices(lambda a: a.norm("nuc", dim=(1, 2))[:, None])),
    "qr": Case(lambda: of_matrices(lambda a: linalg.qr(a).R.square())),
    "cholesky_solve": Case(lambda: of_matrices(lambda a: gaussian(a)[:, None])),
    "matrix_exp": Case(lambda: of_matrices(lambda a: torch.matrix_exp(a - a.mT)), fd_rtol=1e-2),
    "scatter_reduce, mean": Case(lambda: graph("mean")),
    "scatter_reduce, prod": Case(lambda: graph("prod")),
    "GRU, three layers": Case(lambda: recurrent(nn.GRU(3, 2, 3, bias=False, batch_first=True))),
    "LSTM, projections": Case(lambda: recurrent(nn.LSTM(3, 4, proj_size=2, batch_first=True))),
    "special.i0, i1": Case(
        lambda: density_of(
            m := nn.Linear(3, 4),
            3,
            f=lambda x: torch.special.i0(m(x)).log() - torch.special.i1(m(x).exp()).log1p(),
        )
    ),
}
