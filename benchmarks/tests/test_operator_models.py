import pytest

from benchmarks import operator_models
from benchmarks.operator_models import ENGINES, MODELS, OPERATORS, outcomes, table

CHOSEN = [
    "MLP, GLU",
    "LayerNorm",
    "scaled dot-product attention",
    "GRU",
    "velocity given the time",
]


def test_there_are_forty_models() -> None:
    assert len(MODELS) >= 40


@pytest.mark.parametrize("name", CHOSEN)
def test_right_or_refused_by_name(name: str) -> None:
    results = outcomes([name])
    assert {engine for *_, engine in results} == set(ENGINES)
    assert {operator for _, operator, _ in results} == set(OPERATORS)
    for (_, operator, engine), outcome in results.items():
        if name == "scaled dot-product attention" and (engine == "Autodiff" or operator == "hvp"):
            assert outcome == "right" or "use Taylor()" in outcome
        else:
            assert outcome == "right", (operator, engine)


def test_a_wrong_result_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    calculate, truth = OPERATORS["laplacian"]
    wrong = lambda at, engine, step: 1.01 * calculate(at, engine, step)
    monkeypatch.setattr(operator_models, "OPERATORS", {"laplacian": (wrong, truth)})
    results = outcomes(["MLP, tanh"])
    assert all(outcome.startswith("wrong") for outcome in results.values())
    text = table(results)
    assert "| MLP, tanh | ✗✗✗ |" in text
    assert "3 wrong" in text
