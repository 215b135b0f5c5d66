"""Recipes are trained in float32, as users do."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _float32(_float64: None) -> None:
    torch.set_default_dtype(torch.float32)
