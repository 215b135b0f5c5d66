"""Numbers that a loss reads from tensors, which a graph must not keep."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fdsm.derivatives import FiniteDifference, Taylor
from fdsm.objectives import DSM, SSM
from fdsm.training import CompileWarning, compiled_step
from fdsm.typing import Objective

from ...parameters import at_night
from .cases import mlp


class Guided(nn.Module):
    """A density with a condition that is the same in all rows, such as a temperature."""

    def __init__(self, number: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.net, self.number = mlp(), number
        self.outside = torch.tensor([2.0, 0.0])

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        y: Tensor = self.net(x) * self.number(t)
        return y


READS: dict[str, Callable[[Tensor], object]] = {
    "item": lambda t: t[0].item(),
    "tolist": lambda t: t.tolist()[0],
    "numpy": lambda t: float(t.numpy()[0]),
    "float": lambda t: float(t[0]),
    "int": lambda t: int(t[0]),
    "bool": lambda t: 2.0 if t[0] > 3.5 else 1.0,
    "complex": lambda t: complex(t[0]).real,
    "index": lambda t: (1.0, 1.0, 1.0, 1.0, 2.0)[t[0].long()],
    "array": lambda t: float(np.asarray(t)[0]),
    "dlpack": lambda t: float(np.from_dlpack(t)[0]),
    "equal": lambda t: 2.0 if torch.equal(t, torch.full_like(t, 4)) else 1.0,
    "allclose": lambda t: 2.0 if t.allclose(torch.full_like(t, 4)) else 1.0,
    "nonzero": lambda t: 2.0 if torch.is_nonzero(t[0] - 4) else 1.0,
    "contains": lambda t: 2.0 if 4.0 in t else 1.0,
    "math": lambda t: math.sqrt(t[0]),
    "unpacked": lambda t: math.prod(float(number) for number in t) ** (1 / len(t)),
    "number of rows": lambda t: 1.0 + t[t > 3.5].shape[0],
    "caught": lambda t: caught(t),
}


def caught(t: Tensor) -> float:
    """Return the number, or a default where it is not known, as some packages do."""
    try:
        return t.tolist()[0]
    except Exception:
        return 1.0


TRACED: dict[str, Callable[[Tensor], object]] = {
    "rows": lambda t: torch.stack([row * 1.0 for row in t]),
    "first row": lambda t: next(iter(t)),
    "unbind": lambda t: t.unbind()[0],
    "where": lambda t: torch.where(t > 3.5, 2.0, 1.0),
    "constant": lambda t: t * torch.tensor([2.0]),
}


def losses(
    number: Callable[[Tensor], object], objective: Objective, compiled: bool
) -> tuple[list[float], Tensor]:
    """Return the losses of eight steps with a condition that changes, and the last weights."""
    torch.manual_seed(0)
    model = Guided(number)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(1)
    step = compiled_step(objective, model, optimizer)
    result = []
    for i in range(8):
        x, t = torch.randn(6, 3, generator=generator), torch.full((6,), 3.0 + (i > 3))
        if compiled:
            result.append(step(x, t, generator=generator)["loss"].item())
            continue
        optimizer.zero_grad()
        loss = objective(model, x, t, generator=generator).mean()
        loss.backward()
        optimizer.step()
        result.append(loss.item())
    return result, model.net[0].weight.detach()


OBJECTIVES = [DSM(0.3), SSM(FiniteDifference()), SSM(Taylor())]


@pytest.mark.usefixtures("_traced_only")
@pytest.mark.parametrize("name", READS)
def test_numbers_read_from_a_tensor_are_refused(name: str) -> None:
    expected = losses(READS[name], DSM(0.3), compiled=False)
    with pytest.warns(CompileWarning, match="numbers (are read from|in) a tensor"):
        found = losses(READS[name], DSM(0.3), compiled=True)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("_traced_only")
@pytest.mark.parametrize("objective", OBJECTIVES[1:], ids=["finite differences", "Taylor"])
@pytest.mark.parametrize("name", ["tolist", "numpy"])
def test_numbers_are_refused_inside_derivatives(name: str, objective: Objective) -> None:
    expected = losses(READS[name], objective, compiled=False)
    with pytest.warns(CompileWarning, match=r"numbers are read from a tensor, by \w+\(\)"):
        found = losses(READS[name], objective, compiled=True)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("_traced_only")
@pytest.mark.parametrize("name", TRACED)
def test_tensors_stay_inputs(name: str) -> None:
    require_inputs(name, DSM(0.3))


@pytest.mark.usefixtures("_traced_only")
@pytest.mark.parametrize("objective", OBJECTIVES[1:], ids=["finite differences", "Taylor"])
@pytest.mark.parametrize("name", at_night(TRACED, but={"where"}))
def test_tensors_stay_inputs_of_derivatives(name: str, objective: Objective) -> None:
    require_inputs(name, objective)


def require_inputs(name: str, objective: Objective) -> None:
    expected = losses(TRACED[name], objective, compiled=False)
    found = losses(TRACED[name], objective, compiled=True)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("_traced_only")
@pytest.mark.parametrize("read", [Tensor.tolist, Tensor.numpy, lambda t: [t[0].item()]])
def test_numbers_of_tensors_outside_of_the_model_are_refused(
    read: Callable[[Tensor], list[float]],
) -> None:
    scale = torch.tensor([2.0])
    with pytest.warns(CompileWarning, match="numbers are read from a tensor"):
        losses(lambda t: float(read(scale)[0]), DSM(0.3), compiled=True)


@pytest.mark.usefixtures("_traced_only")
def test_tensors_outside_of_the_model_are_told_apart() -> None:
    a, b = torch.tensor([2.0]), torch.tensor([5.0])
    number = lambda t: a * t + b * t + a
    expected = losses(number, DSM(0.3), compiled=False)
    found = losses(number, DSM(0.3), compiled=True)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
