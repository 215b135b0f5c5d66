"""Averages of the weights compared with their recursion, and limits of the gradient."""

import pytest
import torch
from torch import nn

from fdsm.training import EMA, CompiledUpdate, Update


def test_average_follows_the_recursion() -> None:
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(5.0)
    average, expected = EMA(model, 0.9), 5.0
    for t in range(200):
        with torch.no_grad():
            model.weight.fill_(float(t))
        average.update()
        decay = min(0.9, (1 + t) / (10 + t))
        expected = decay * expected + (1 - decay) * t
    assert average.model.weight.item() == pytest.approx(expected)
    assert 199 - average.model.weight.item() == pytest.approx(9, rel=1e-6)  # a / (1 - a) behind
    assert model.weight.item() == 199


def test_warm_up_of_the_average() -> None:
    """With weights 1 after a start at 0, one minus the average is the product of the decays."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    average, expected = EMA(model, 0.999), 1.0
    nn.init.ones_(model.weight)
    for decay in (1 / 10, 2 / 11, 3 / 12):
        average.update()
        expected *= decay
        assert 1 - average.model.weight.item() == pytest.approx(expected, rel=1e-4)


def test_buffers_are_copied() -> None:
    model = nn.BatchNorm1d(1)
    average = EMA(model, 0.9)
    model(torch.tensor([[3.0], [5.0]]))  # momentum 0.1 of mean 4 and variance 2
    average.update()
    assert isinstance(average.model, nn.BatchNorm1d)
    for buffer, expected in (
        (average.model.running_mean, 0.4),
        (average.model.running_var, 0.9 + 0.2),
        (average.model.num_batches_tracked, 1),
    ):
        assert buffer is not None
        assert buffer.item() == pytest.approx(expected)


def test_average_resumes_from_its_state() -> None:
    model = nn.Linear(2, 1)
    whole = EMA(model, 0.99)
    for _ in range(3):
        whole.update()
    half = EMA(nn.Linear(2, 1), 0.99)
    half.load_state_dict(whole.state_dict())
    half.source = model
    with torch.no_grad():
        model.weight.add_(1)
    for average in (whole, half):
        average.update()
    assert torch.equal(whole.model.weight, half.model.weight)


def test_decay_must_be_between_zero_and_one() -> None:
    with pytest.raises(ValueError, match=r"in \(0, 1\), but is 1"):
        EMA(nn.Linear(1, 1), 1.0)


@pytest.mark.parametrize("kind", [Update, CompiledUpdate])
@pytest.mark.parametrize("clip", [0.0, -1.0, float("nan")])
def test_a_limit_of_the_gradient_must_be_positive(kind: type[Update], clip: float) -> None:
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match=f"clip must be positive, or None .* but is {clip}"):
        kind(lambda x, *_: model(x), model, optimizer, clip)


def test_a_gradient_is_scaled_to_its_limit() -> None:
    model = nn.Linear(1, 1, bias=False)
    start, optimizer = model.weight.item(), torch.optim.SGD(model.parameters(), lr=1.0)
    update = Update(lambda x, *_: 3 * model(x), model, optimizer, 0.5)
    metrics = update((torch.ones(2, 1),), None, 0.0)
    assert metrics["grad_norm"].item() == pytest.approx(3.0)
    assert start - model.weight.item() == pytest.approx(0.5, rel=1e-5)
