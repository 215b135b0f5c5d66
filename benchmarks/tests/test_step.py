"""Every step computes the gradient of its loss, or takes a step of Adam."""

import pytest
import torch
from torch import nn

from benchmarks import step
from benchmarks.peers.by_hand import plain
from benchmarks.problems import Problem
from benchmarks.records import Case
from benchmarks.timing import time_group

from .benchmark_cases import TINY


def test_all_eager_cases_are_timed_and_have_a_reference() -> None:
    (group,) = step.groups(problems=[TINY])
    eager = [case for case in group.cases if case.mode != step.GRAPH]
    costs = time_group(group.only(eager))
    assert {cost.case for cost in costs} == set(eager)
    assert all(len(cost.samples) == 2 and min(cost.samples) > 0 for cost in costs)
    assert {case.mode for case in group.cases} == set(step.REFERENCES)
    assert all(reference in group.cases for reference in step.REFERENCES.values())


@pytest.mark.parametrize("name", ["FD-SSM", "SSM", "DSM"])
def test_there_is_a_case_by_hand_for_each_case_of_the_package(name: str) -> None:
    cases = step.torch_cases(TINY)
    for mode in (step.GRADIENT, step.ADAM):
        assert {Case(mode, name), Case(mode, name, "by hand")} <= cases.keys()
    assert Case(step.GRAPH, name) in cases


class Recording(Problem):
    """A problem whose last network can be inspected."""

    def build(self) -> tuple[nn.Module, torch.Tensor]:
        built = super().build()
        object.__setattr__(self, "last", built[0])
        return built


def test_a_step_of_adam_moves_every_parameter_with_a_gradient_by_the_learning_rate() -> None:
    problem = Recording(TINY.name, TINY.model, TINY.shape, 1)
    run = step.adam_step(step.bound(plain), problem)
    before = [p.detach().clone() for p in problem.last.parameters()]
    run()
    pairs = zip(problem.last.parameters(), before, strict=True)
    moved = [(p - q).abs().max().item() for p, q in pairs]
    assert moved == pytest.approx([step.LEARNING_RATE] * len(moved), rel=1e-2)


def test_a_gradient_step_keeps_parameters_and_frees_gradients() -> None:
    problem = Recording(TINY.name, TINY.model, TINY.shape, 1)
    run = step.gradient_step(step.bound(plain), problem)
    seen = list[torch.Tensor]()
    for p in problem.last.parameters():
        p.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad))
    before = [p.detach().clone() for p in problem.last.parameters()]
    run()
    assert len(seen) == len(before)
    assert all(p.grad is None for p in problem.last.parameters())
    assert all(map(torch.equal, problem.last.parameters(), before))


@pytest.mark.nightly
def test_steps_as_one_graph_are_compiled_and_timed() -> None:
    (group,) = step.groups(problems=[TINY])
    graphs = [case for case in group.cases if case.mode == step.GRAPH]
    assert {cost.case for cost in time_group(group.only(graphs))} == set(graphs)
