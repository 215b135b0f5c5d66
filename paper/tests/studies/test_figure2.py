"""Figure 2 on a function with known derivatives, and on the model of a run."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from paper.run_store import RunStore
from paper.studies.figure2 import Figure2
from paper.study import StudyResult
from paper.support.derivative_cost import NESTED, PARALLEL, SERIAL, TAYLOR, Budget
from paper.support.fd_error import relative_error

from ..support.derivative_cases import Wave, derivative, points

SMALL = Figure2(
    budget=Budget(max_order=4, repeats=1),
    cost_rows=2,
    error_rows=8,
    steps=(0.03, 0.1, 0.3),
    plotted_orders=(2, 3, 8),
    checked_order=3,
)


@pytest.fixture
def result(generator: torch.Generator) -> StudyResult:
    x, v = points(8, generator)
    return SMALL.for_density(Wave().float(), Wave(), x.float(), v.float(), lambda loop: loop)


def test_panels_agree_with_closed_forms(result: StudyResult, generator: torch.Generator) -> None:
    time, memory, graph, error, narrow, wide = result.panels
    for panel in (time, memory, graph):
        assert [line.name for line in panel.lines] == [NESTED, SERIAL, PARALLEL, TAYLOR]
        assert all(line.x == (1, 2, 3, 4) and min(line.y) > 0 for line in panel.lines)
    assert len(set(graph.lines[2].y)) == 1
    assert all(line.y[-1] < 0.01 for line in error.lines[:1])
    assert [line.name for line in wide.lines[::2]] == ["T = 2", "T = 3"]
    x, v = (y.float().double() for y in points(8, generator.manual_seed(0)))
    second, third, f = [], [], Wave()
    for h in SMALL.steps:
        size = v.norm(dim=1)
        u = h * v / size[:, None]
        second.append((f(x + u) + f(x - u) - 2 * f(x)) * (size / h) ** 2)
        odd = (f(x + 2 * u) - f(x - 2 * u)) / 2 - (f(x + u) - f(x - u))
        third.append(odd * (size / h) ** 3)
    for line, quotients, order in ((wide.lines[0], second, 2), (wide.lines[2], third, 3)):
        expected = [relative_error(q.detach(), derivative(x, v, order)) for q in quotients]
        assert line.y == pytest.approx(expected, rel=1e-6)
    best = [min(line.y) for line in narrow.lines[::2]]
    assert error.lines[1].y[1:3] == pytest.approx(best)
    assert result.numbers["Taylor against nested autograd"].value < 1e-12
    assert result.numbers["orders within 1 %, float64"].value == 4


def test_float32_is_worse_than_float64_at_small_steps(result: StudyResult) -> None:
    *_, narrow, wide = result.panels
    for order in (0, 2):
        assert narrow.lines[order].y[0] > 2 * wide.lines[order].y[0]
        assert narrow.lines[order].y[-1] == pytest.approx(wide.lines[order].y[-1], rel=0.05)


@pytest.mark.usefixtures("tiny_table")
def test_the_model_of_a_run(tmp_path: Path) -> None:
    study = replace(SMALL, target="tiny", row="a")
    result = study.run(RunStore(tmp_path), 0, lambda loop: loop)
    assert result.numbers["Taylor against nested autograd"].value < 1e-9
    assert result.numbers["orders within 1 %, float64"].value == 4
