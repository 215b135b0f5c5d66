"""A tiny problem, two modes to learn, and results with known ratios."""

import torch

from benchmarks.learning_problems import LearningProblem
from benchmarks.problems import Problem, mlp
from benchmarks.records import Case, Cost, Curve, Record, Trainings
from benchmarks.time_to_loss import Start
from fdsm.evaluation import exact_sm_loss

TINY = Problem("tiny", lambda: mlp(3, 4, 4), (5, 3), 2)
TWO_MODES = LearningProblem(
    "two modes", lambda: (draw_modes(1000), draw_modes(100)), (32, 32), 0.1
)
PLAIN = Case("gradient", "plain", "torch")
FD = Case("gradient", "FD-SSM")
PEER = Case("gradient", "FD-SSM", "JAX jit")


def draw_modes(count: int) -> torch.Tensor:
    """Return numbers near -1 and 1, shape `(count, 1)`."""
    return (torch.randn(count, 1).sign() + 0.2 * torch.randn(count, 1)).float()


def record(fd: float = 2.0, peer: float = 3.0) -> Record:
    """Return a record in which the plain step takes one second in each of three runs."""
    costs = (
        Cost("tiny", PLAIN, (1.0, 1.0, 1.0)),
        Cost("tiny", FD, (fd, 2 * fd, fd)),
        Cost("tiny", PEER, (peer, peer, peer)),
    )
    return Record("step", "seconds", {"gradient": PLAIN}, costs, "2026-01-01", {"cores": 2})


def trainings() -> Trainings:
    """Return trainings of ten seconds, of which one compiles for five."""
    curves = (
        Curve("wine", "SSM, torchebm", 0, 0.0, 10, (0.0, 5.0, 10.0), (0.0, -1.0, -2.0)),
        Curve("wine", "SSM, torchebm", 1, 0.0, 10, (0.0, 5.0, 10.0), (0.0, -3.0, -4.0)),
        Curve("wine", "FD-SSM, fdsm", 0, 5.0, 30, (0.0, 5.0, 10.0), (0.0, -6.0, -8.0)),
        Curve("wine", "FD-SSM, fdsm", 1, 1.0, 30, (0.0, 5.0, 10.0), (0.0, -6.0, -8.0)),
    )  # fmt: skip
    return Trainings("time-to-loss", 10.0, curves, "2026-01-01", {"cores": 2})


def assert_learns(start: Start) -> None:
    """Assert that 400 steps find the modes.

    A normal density with the variance of the data has a loss of -½, the modes one below -5.
    """
    data, test = TWO_MODES.data()
    trainer = start(data, TWO_MODES.network(1, 0), 0)
    assert exact_sm_loss(trainer.model(), test).value > -0.6
    for _ in range(400):
        trainer.step()
    trainer.wait()
    assert exact_sm_loss(trainer.model(), test).value < -1
