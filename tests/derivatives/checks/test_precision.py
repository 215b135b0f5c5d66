"""Finite differences are evaluated in full precision, forward and backward."""

import warnings
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import FiniteDifference, PrecisionWarning, full_precision


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 1), nn.Flatten(0)).float()


@pytest.mark.parametrize("engine", [FiniteDifference(), FiniteDifference(chunk=5)])
def test_autocast_is_left(engine: FiniteDifference, generator: Generator) -> None:
    model, (x, v) = net(), torch.randn(2, 8, 3, generator=generator).float()

    outside = engine.jet(model, x, v, 2)
    with torch.autocast("cpu", torch.bfloat16):
        assert model(x).dtype == torch.bfloat16
        inside = engine.jet(model, x, v, 2)
        assert torch.is_autocast_enabled("cpu")
    weights = list(model.parameters())
    gradients = [torch.autograd.grad(jet[2].sum(), weights) for jet in (inside, outside)]
    for a, b in zip((*inside, *gradients[0]), (*outside, *gradients[1]), strict=True):
        assert torch.equal(a, b)


def test_backward_inside_autocast_is_warned_of(generator: Generator) -> None:
    model, (x, v) = net(), torch.randn(2, 8, 3, generator=generator).float()
    with torch.autocast("cpu", torch.bfloat16):
        curvature = FiniteDifference().jet(model, x, v, 2)[2].sum()
        with pytest.warns(PrecisionWarning, match=r"leave the `torch\.autocast` block"):
            curvature.backward()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_refused(dtype: torch.dtype) -> None:
    x = torch.ones(2, 3)
    with pytest.raises(TypeError, match=r"the data are .*float16.* float32"):
        FiniteDifference().jet(lambda x: x.sum(1), x.to(dtype), x.to(dtype), 2)
    with pytest.raises(TypeError, match=r"the values of the model are .*float16"):
        FiniteDifference().quadratic(lambda x: x.to(dtype), x, x)


@pytest.mark.filterwarnings("ignore::fdsm.derivatives.PrecisionWarning")
def test_differences_are_formed_in_float64() -> None:
    values = torch.tensor([2.0**24, 2.0**23, 2.0**24 + 2]).float()  # 2 + 2**25 is not a float32
    f = lambda x: values[x[:, 0].round().long() + 1]
    zero, one = torch.zeros(1, 1).float(), torch.ones(1, 1).float()
    jet = FiniteDifference().jet(f, zero, one, 2)
    slopes, curvature = FiniteDifference().sliced(f, zero, one[None])
    assert [term.item() for term in jet] == [2.0**23, 1, 2.0**24 + 2]
    assert (slopes.item(), curvature.item()) == (1, 2.0**24 + 2)
    assert jet[2].dtype == curvature.dtype == torch.float32
    naive = values[2] + values[0] - 2 * values[1]
    assert (naive - curvature).item() == -2


class Settings(torch.autograd.Function):
    """The identity, noting the precision of products forward and backward."""

    seen: list[str] = []  # ruff: ignore[mutable-class-default]

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor) -> Tensor:
        Settings.seen.append(torch.backends.mkldnn.matmul.fp32_precision)
        return x.clone()

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, g: Tensor) -> Tensor:
        Settings.seen.append(torch.backends.mkldnn.matmul.fp32_precision)
        return g


@pytest.fixture
def _settings_of_torch() -> Iterator[None]:
    yield
    torch.backends.cudnn.allow_tf32 = True
    torch.set_float32_matmul_precision("highest")


def use_old_switch() -> None:
    torch.set_float32_matmul_precision("medium")


def use_new_switch() -> None:
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"
    torch.backends.cuda.matmul.fp32_precision = "tf32"


@pytest.mark.usefixtures("_settings_of_torch")
@pytest.mark.skipif(not hasattr(torch.backends.mkldnn, "matmul"), reason="torch is too old")
@pytest.mark.parametrize("chunk", [None, 4])
@pytest.mark.parametrize("reduce", [use_old_switch, use_new_switch])
def test_reduced_precision_products_are_off_forward_and_backward(
    reduce: Callable[[], None], chunk: int | None
) -> None:
    x, weight = torch.randn(4, 3), torch.randn(3, requires_grad=True)
    f = lambda x: Settings.apply((x * weight).square().sum(1))
    reduce()
    Settings.seen = []
    FiniteDifference(chunk=chunk).jet(f, x, x, 2)[2].sum().backward()
    assert len(Settings.seen) >= 2
    assert set(Settings.seen) == {"ieee"}
    assert torch.backends.mkldnn.matmul.fp32_precision == "bf16"


@pytest.mark.usefixtures("_settings_of_torch")
@pytest.mark.skipif(not hasattr(torch.backends.mkldnn, "matmul"), reason="torch is too old")
@pytest.mark.parametrize("reduce", [use_old_switch, use_new_switch])
def test_settings_of_a_gpu_are_restored_even_after_an_error(reduce: Callable[[], None]) -> None:
    switches = torch.backends.cuda.matmul, torch.backends.cudnn.conv
    reduce()
    before = [switch.fp32_precision for switch in switches]

    def fail() -> None:
        with full_precision(torch.device("cuda")):
            assert not {switch.fp32_precision for switch in switches} & {"tf32", "bf16"}
            raise KeyError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # autocast: there is no such device
        with pytest.raises(KeyError):
            fail()
    assert [switch.fp32_precision for switch in switches] == before == ["tf32", "tf32"]
