from torch import nn

from fdsm.training.distributed.fully_sharded import has_parameters


def test_layers_with_parameters_of_their_own_are_gathered_one_by_one() -> None:
    """That their gradients are right is tested in test_update.py."""
    assert has_parameters(nn.Linear(1, 1))
    assert not has_parameters(nn.Softplus())
    assert not has_parameters(nn.Sequential(nn.Linear(1, 1)))
    assert not has_parameters(nn.ParameterList([nn.Parameter(nn.Linear(1, 1).weight)]))
