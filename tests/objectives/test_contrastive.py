"""The one-sided difference compared with the equations of the paper."""

import torch
from torch import Generator

from fdsm.derivatives import FiniteDifference
from fdsm.objectives import SSM, NaiveFD
from fdsm.projections import Sphere

from .equation_cases import EPS, EXACT, network, sample


def test_naive_difference_is_appendix_b7(generator: Generator) -> None:
    x, v, _ = sample((5,), False, generator)
    log_p = network((5,), 0, False)
    delta = log_p(x + v) - log_p(x)
    expected = (delta**2 + 4 * delta) / (2 * EPS**2)
    torch.testing.assert_close(NaiveFD(projection=Sphere(EPS)).at(log_p, x, v), expected, **EXACT)


def test_antithetic_naive_difference_exceeds_fd_ssm_by_a_square(generator: Generator) -> None:
    x, v, _ = sample((5,), False, generator)
    log_p = network((5,), 0, False)
    naive = NaiveFD(projection=Sphere(EPS))
    excess = (log_p(x + v) + log_p(x - v) - 2 * log_p(x)) ** 2 / (8 * EPS**2)
    both = (naive.at(log_p, x, v) + naive.at(log_p, x, -v)) / 2
    fd_ssm = SSM(FiniteDifference(), Sphere(EPS)).at(log_p, x, v)
    torch.testing.assert_close(both - fd_ssm, excess, rtol=1e-9, atol=1e-12)
