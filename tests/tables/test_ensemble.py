"""The cross-fitted ensemble: its objective, its folds, and its density of normal data."""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import score_of
from fdsm.models import (
    AtNoiseLevel,
    MeanOfMembers,
    NoiseConditionalEnsemble,
    OneMember,
    ProductOfMembers,
)
from fdsm.objectives import SM, SSM
from fdsm.projections import Sphere
from fdsm.tables import choose_objective, ensemble
from fdsm.tables.ensemble import Ensemble, History, fold_of_rows, objective_title, train_ensemble
from fdsm.tables.imputation import CompletedRows, fill_within_folds
from fdsm.tensors import randn_like
from fdsm.training import Adam, IterationEvent, NonFiniteLossError
from fdsm.typing import Objective

LEVELS = (0.05, 2.0)


class NoisyNormal(nn.Module):
    """Members that all have the log-density of noisy normal data, or of another precision."""

    members = 4

    def __init__(self, precision: float = 1.0) -> None:
        super().__init__()
        self.precision = precision

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        return -self.precision * x.square().sum(-1) / (2 * (1 + sigma.square()))


def of_normal(precision: float = 1.0, objective: Objective | None = None) -> Ensemble:
    network = NoisyNormal(precision)
    return Ensemble(network, objective or choose_objective())  # type: ignore[arg-type]


def untrained(columns: int = 3) -> NoiseConditionalEnsemble:
    return NoiseConditionalEnsemble(columns, 4, 8, generator=Generator().manual_seed(0))


def completed(x: Tensor) -> CompletedRows:
    return fill_within_folds(x, fold_of_rows(len(x)))


# The objective


def test_default_objective_is_the_mean_denoising_loss_of_the_members(
    generator: Generator,
) -> None:
    """By hand, with the same noise: ‖σ s_k(x + σz, σ) + z‖² / D, averaged over the members."""
    network = untrained()
    x = torch.randn(4, 6, 3, generator=generator)
    losses = Ensemble(network, choose_objective()).losses(x, Generator().manual_seed(1))
    assert losses.shape == (6,)
    assert not losses.requires_grad
    noise = Generator().manual_seed(1)
    rows = x.transpose(0, 1)
    sigma = ensemble.LEVELS.sample(rows, noise)
    z = randn_like(rows, noise)
    expected = torch.zeros(6)
    for k, i in itertools.product(range(4), range(6)):
        score = score_of(AtNoiseLevel(OneMember(network, k), sigma[i].item()))
        residual = sigma[i] * score((rows[i, k] + sigma[i] * z[i, k])[None])[0] + z[i, k]
        expected[i] += residual.square().sum() / (4 * 3)
    torch.testing.assert_close(losses, expected)


def test_exact_score_matching_is_the_mean_over_the_members(generator: Generator) -> None:
    """Of the members at their own rows, because the members share no inputs."""
    network = untrained()
    x, sigma = torch.randn(6, 4, 3, generator=generator), torch.linspace(0.1, 2.0, 6)
    joint = SM()(ProductOfMembers(network), x, sigma)
    members = [SM()(OneMember(network, k), x[:, k], sigma) for k in range(4)]
    torch.testing.assert_close(joint, torch.stack(members).mean(0))


def test_sliced_score_matching_along_one_member_is_that_of_the_member(
    generator: Generator,
) -> None:
    network, objective = untrained(), SSM(projection=Sphere(0.1))
    x, sigma = torch.randn(6, 4, 3, generator=generator), torch.linspace(0.1, 2.0, 6)
    v = Sphere(0.1).sample(x[:, 0], generator)
    for k in range(4):
        along = torch.zeros_like(x)
        along[:, k] = v
        torch.testing.assert_close(
            objective.at(ProductOfMembers(network), x, along, sigma),
            objective.at(OneMember(network, k), x[:, k], v, sigma),
        )


def test_sliced_score_matching_over_all_coordinates_is_exact_score_matching(
    generator: Generator,
) -> None:
    network, objective = untrained(), SSM(projection=Sphere(0.1))
    x, sigma = torch.randn(6, 4, 3, generator=generator), torch.linspace(0.1, 2.0, 6)
    v = 0.1 * torch.eye(12).view(12, 1, 4, 3).expand(-1, 6, -1, -1)
    model = ProductOfMembers(network)
    torch.testing.assert_close(objective.at(model, x, v, sigma), SM()(model, x, sigma))


def mean_over_levels(values: Tensor) -> float:
    """The mean over log σ, of values at `log_levels`."""
    return float(torch.trapezoid(values, log_levels()) / math.log(LEVELS[1] / LEVELS[0]))


def log_levels() -> Tensor:
    return torch.linspace(math.log(LEVELS[0]), math.log(LEVELS[1]), 2001)


def test_denoising_loss_of_the_true_density_has_a_closed_form(generator: Generator) -> None:
    """The residual has the variance 1/(1 + σ²), and log σ is uniform."""
    x = torch.randn(4, 20_000, 2, generator=generator)
    expected = mean_over_levels(1 / (1 + (2 * log_levels()).exp()))
    losses = of_normal().losses(x, generator)
    assert losses.mean().item() == pytest.approx(expected, abs=0.006)
    for precision in (0.8, 1.2):
        assert of_normal(precision).losses(x, generator).mean() > losses.mean() + 0.006


@pytest.mark.parametrize("derivative", ["taylor", "fd", "autodiff"])
@pytest.mark.parametrize("name", ["ssm", "sm"])
def test_other_objectives_of_the_true_density_have_a_closed_form(
    name: Literal["ssm", "sm"],
    derivative: Literal["taylor", "fd", "autodiff"],
    generator: Generator,
) -> None:
    """In units of σ, SM is σ² (-a + a²/2 · (1 + σ²)) with a = 1/(1 + σ²): -σ²/(2 (1 + σ²))."""
    objective = choose_objective(name, derivative)
    x = torch.randn(4, 4000, 2, generator=generator)
    share = (2 * log_levels()).exp()
    expected = mean_over_levels(-share / (2 * (1 + share)))
    losses = of_normal(objective=objective).losses(x, generator)
    error = float(losses.std() / len(losses) ** 0.5)
    assert losses.mean().item() == pytest.approx(expected, abs=4 * error + 1e-3)
    for precision in (0.5, 2.0):
        assert of_normal(precision, objective).losses(x, generator).mean() > losses.mean()


def test_gradient_reaches_all_members(generator: Generator) -> None:
    network = untrained()
    x = torch.randn(8, 4, 3, generator=generator)
    for name in ("dsm", "ssm", "sm"):
        network.zero_grad()
        loss = choose_objective(name)(ProductOfMembers(network), x, generator=generator)
        loss.mean().backward()  # type: ignore[no-untyped-call]
        gradient = network.rows.weight.grad
        assert gradient is not None
        assert (gradient.abs().amax((1, 2)) > 0).all()


def test_denoising_takes_no_derivative() -> None:
    with pytest.raises(ValueError, match=r"takes no derivatives along directions.*: ssm, sm"):
        choose_objective("dsm", "fd")


def test_objectives_have_titles() -> None:
    assert objective_title(choose_objective()) == "denoising score matching"
    exact = "exact score matching, derivatives with"
    assert objective_title(choose_objective("sm")) == f"{exact} Taylor"
    assert objective_title(choose_objective("sm", "autodiff")) == f"{exact} Autodiff"
    assert objective_title(SM()) == repr(SM())


# Folds


def test_folds_are_random_and_of_equal_size() -> None:
    folds = fold_of_rows(1002)
    assert torch.equal(folds, fold_of_rows(1002))
    assert sorted(folds.bincount().tolist()) == [250, 250, 251, 251]
    assert (folds[:-1] == folds[1:]).double().mean().item() == pytest.approx(0.25, abs=0.05)


class Seen:
    """An objective that remembers its rows. Its loss does not depend on the model."""

    def __init__(self) -> None:
        self.batches: list[Tensor] = []

    def __call__(self, model: nn.Module, x: Tensor, *, generator: Generator) -> Tensor:
        self.batches.append(x.clone())
        return 0 * model(x, torch.ones(len(x)))


def test_members_learn_from_all_rows_outside_their_fold_and_are_validated_on_the_others() -> None:
    """Rows hold their own number."""
    objective = Seen()
    train_ensemble(completed(torch.arange(62.0)[:, None]), objective, iterations=40, seed=0)
    training = torch.cat([batch for batch in objective.batches if len(batch) < 500])
    validation = torch.cat([batch for batch in objective.batches if len(batch) >= 500])
    folds = fold_of_rows(62)
    for k in range(4):
        rows = set(training[:, k, 0].long().tolist())
        assert rows == set((folds != k).nonzero().flatten().tolist())
        held_out = set(validation[:, k, 0].long().tolist())
        assert held_out == set((folds == k).nonzero().flatten()[:15].tolist())
    assert (validation == validation[:, :1]).all(1).sum() == 0


def test_missing_cells_have_the_values_of_donors_in_the_same_fold() -> None:
    """Row 0 lacks its second cell. So no member sees the rows that it does not learn from."""
    x = torch.stack([torch.arange(40.0), 100 + torch.arange(40.0)], 1)
    x[0, 1] = torch.nan
    objective = Seen()
    train_ensemble(completed(x), objective, iterations=60, seed=0)
    rows = torch.cat([b for b in objective.batches if len(b) < 500]).flatten(0, 1)
    assert not rows.isnan().any()
    folds = fold_of_rows(40)
    donors = (folds == folds[0]).nonzero().flatten()[1:6]
    assert set(rows[rows[:, 0] == 0, 1].tolist()) == set((100.0 + donors).tolist())
    others = rows[rows[:, 0] > 0]
    assert torch.equal(others[:, 1], others[:, 0] + 100)


def test_weights_of_a_member_do_not_depend_on_its_held_out_rows(
    generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without early stopping, which chooses one iteration for all members."""
    monkeypatch.setattr(ensemble, "VALIDATIONS", 1)
    monkeypatch.setattr(ensemble, "OPTIMIZER", Adam(2e-3))  # clipping uses all gradients together
    x = torch.randn(80, 3, generator=generator)
    x[::9, 1] = torch.nan
    changed = x.clone()
    changed[fold_of_rows(80) == 2] = 50.0
    before, after = (
        train_ensemble(completed(rows), choose_objective(), iterations=8, seed=0)[
            0
        ].network.state_dict()
        for rows in (x, changed)
    )
    for name, weights in before.items():
        assert torch.equal(after[name][2], weights[2])
        for k in (0, 1, 3):
            assert not torch.equal(after[name][k], weights[k])


# Training


def held_out_loss(trained: Ensemble, x: Tensor) -> float:
    """The mean loss of the rows of each fold by the member that has not seen them."""
    folds = fold_of_rows(len(x))
    held_out = torch.stack([x[folds == k] for k in range(4)])
    repeated = held_out.repeat(1, -(-500 // held_out.shape[1]), 1)
    generator = ensemble._generator(0, "validate")
    return float(trained.losses(repeated, generator).mean())


def test_the_weights_of_the_smallest_held_out_loss_are_kept(
    generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a large step size the loss rises after a few iterations, and training ends."""
    monkeypatch.setattr(ensemble, "OPTIMIZER", Adam(0.1))
    x = torch.randn(40, 2, generator=generator)
    trained, history = train_ensemble(completed(x), choose_objective(), iterations=200, seed=0)
    iterations, losses = zip(*history.losses, strict=True)
    assert iterations == tuple(range(5, history.iterations + 1, 5))
    best = losses.index(min(losses))
    assert best == len(losses) - 1 - ensemble.PATIENCE
    assert history.iterations == iterations[best] + 10 * 5 < 200
    assert held_out_loss(trained, x) == pytest.approx(min(losses))
    assert losses[-1] > min(losses)
    assert not trained.network.training
    assert not any(p.requires_grad for p in trained.network.parameters())


def test_progress_is_told_after_each_iteration(generator: Generator) -> None:
    events: list[IterationEvent] = []
    x = torch.randn(20, 2, generator=generator)
    _, history = train_ensemble(
        completed(x), choose_objective(), iterations=3, seed=0, progress=events.append
    )
    assert [event.iteration for event in events] == [1, 2, 3]
    assert {event.iterations for event in events} == {3}
    assert all(math.isfinite(event.metrics["loss"]) for event in events)
    assert history.seconds >= events[-1].seconds


@pytest.mark.parametrize("name", ["training", "held-out"])
def test_losses_that_are_not_finite_are_named(name: str) -> None:
    def objective(model: nn.Module, x: Tensor, *, generator: Generator) -> Tensor:
        is_validation = len(x) >= 500
        factor = math.nan if is_validation == (name == "held-out") else 1.0
        return factor * model(x, torch.ones(len(x)))

    with pytest.raises(NonFiniteLossError, match=f"the {name} loss of iteration 1 is nan"):
        train_ensemble(completed(torch.randn(20, 2)), objective, iterations=5, seed=0)  # type: ignore[arg-type]


def test_training_needs_an_iteration() -> None:
    with pytest.raises(ValueError, match="iterations must be at least 1, but is 0"):
        train_ensemble(completed(torch.randn(20, 2)), choose_objective(), iterations=0, seed=0)


def test_a_seed_gives_the_same_weights_also_in_threads(generator: Generator) -> None:
    x = torch.randn(60, 2, generator=generator)

    def weights(seed: int) -> Tensor:
        trained, _ = train_ensemble(completed(x), choose_objective(), iterations=5, seed=seed)
        return torch.cat([p.flatten() for p in trained.network.parameters()])

    with ThreadPoolExecutor(2) as pool:
        first, other = pool.map(weights, (7, 8))
    assert torch.equal(first, weights(7))
    assert not torch.equal(first, other)


# The density of normal data


@pytest.fixture(scope="module")
def trained() -> tuple[Ensemble, History, Tensor]:
    torch.set_default_dtype(torch.float32)
    x = torch.randn(2000, 2, generator=Generator().manual_seed(0))
    return *train_ensemble(completed(x), choose_objective(), iterations=300, seed=0), x


@pytest.mark.parametrize("sigma", [0.2, 0.5, 1.5])
def test_trained_ensemble_has_the_score_of_noisy_normal_data(
    sigma: float, trained: tuple[Ensemble, History, Tensor]
) -> None:
    """The score is -x / (1 + σ²), for the mean and, with larger errors, for each member."""
    network = trained[0].network
    x = torch.randn(2000, 2, generator=Generator().manual_seed(3)).float() * (1 + sigma**2) ** 0.5
    truth = -x / (1 + sigma**2)
    error = lambda model: (
        (score_of(AtNoiseLevel(model, sigma))(x) - truth).square().mean() / truth.square().mean()
    ).item()
    assert error(MeanOfMembers(network)) < 0.04
    for k in range(4):
        assert error(OneMember(network, k)) < 0.1


def test_training_reduces_the_held_out_loss_to_the_smallest_possible(
    trained: tuple[Ensemble, History, Tensor],
) -> None:
    smallest = mean_over_levels(1 / (1 + (2 * log_levels()).exp()))
    losses = [loss for _, loss in trained[1].losses]
    assert min(losses) == pytest.approx(smallest, rel=0.03)
    assert losses[0] > 1.05 * smallest > min(losses)


def test_samples_have_the_moments_of_the_data(trained: tuple[Ensemble, History, Tensor]) -> None:
    torch.set_default_dtype(torch.float32)
    samples = trained[0].sample(2000, Generator().manual_seed(0), lambda steps: steps)
    torch.testing.assert_close(samples.mean(0), torch.zeros(2), atol=0.12, rtol=0)
    torch.testing.assert_close(samples.T.cov(), torch.eye(2), atol=0.15, rtol=0)


def test_chains_start_at_the_density_of_the_largest_level(
    trained: tuple[Ensemble, History, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ensemble, "ancestral_sampling", lambda score, start, *_, **__: start)
    start = trained[0].sample(20_000, Generator().manual_seed(0), lambda steps: steps)
    torch.testing.assert_close(start.T.cov(), 5 * torch.eye(2).float(), atol=0.2, rtol=0)  # 1 + 2²


def test_log_densities_are_read_at_the_scored_levels(
    trained: tuple[Ensemble, History, Tensor],
) -> None:
    density, _, rows = trained
    x = rows[:7]
    values = density.member_log_densities(x.expand(4, -1, -1))
    assert values.shape == (3, 4, 7)
    assert not values.requires_grad
    for level, sigma in enumerate((0.1, 0.2, 0.4)):
        for k in range(4):
            expected = AtNoiseLevel(OneMember(density.network, k), sigma)(x)
            torch.testing.assert_close(values[level, k], expected)
    torch.testing.assert_close(density.log_density(x), values[0].mean(0))
    torch.testing.assert_close(density.member_log_density(2)(x), values[0, 2])
    assert values[0].std(0).min() > 0
