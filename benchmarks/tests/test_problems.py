import pytest
import torch

from benchmarks.problems import PROBLEMS, Problem, mlp


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_models_are_log_densities_of_the_batch_and_always_the_same(problem: Problem) -> None:
    state = torch.get_rng_state()
    (model, x), (again, same) = problem.build(), problem.build()
    assert torch.equal(torch.get_rng_state(), state)
    assert x.dtype == torch.float32
    torch.testing.assert_close(x, same, rtol=0, atol=0)
    with torch.no_grad():
        values = model(x[:2])
        assert values.shape == (2,)
        assert torch.equal(values, again(same[:2]))


def test_a_perceptron_has_these_layers() -> None:
    sizes = [tuple(p.shape) for p in mlp(16, 128, 64).parameters() if p.ndim == 2]
    assert sizes == [(128, 16), (64, 128), (1, 64)]
