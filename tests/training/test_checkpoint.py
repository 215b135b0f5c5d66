"""Checkpoints are loaded bit for bit or refused."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fdsm.training import CheckpointError, Checkpoints
from fdsm.training.checkpoint import load, save

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
STATES = st.dictionaries(
    st.text() | st.integers(),
    st.recursive(
        SCALARS,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner)
        ),
        max_leaves=8,
    ),
    max_size=4,
)


@settings(deadline=None)  # files are flushed to a disk that others use too
@given(state=STATES)
def test_loading_returns_the_saved_state(
    state: dict, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("state") / "a.safetensors"
    save(path, state)
    assert load(path) == state


def test_tensors_of_all_dtypes_layouts_and_nestings_are_restored(tmp_path: Path) -> None:
    base = torch.arange(6.0).view(2, 3)
    state = {
        "a": {0: base, "transposed": base.T, "again": base},
        "list": [torch.tensor(3), torch.tensor([], dtype=torch.uint8)],
        "half": torch.tensor([1.5], dtype=torch.bfloat16),
        "nan": torch.tensor(torch.nan),
    }
    save(tmp_path / "a.safetensors", state)
    back = load(tmp_path / "a.safetensors")
    assert torch.equal(back["a"][0], base)
    assert torch.equal(back["a"]["transposed"], base.T)
    assert back["list"][0] == 3
    assert back["list"][1].shape == (0,)
    assert back["half"].dtype == torch.bfloat16
    assert back["nan"].isnan()


def test_training_resumes_bit_for_bit(tmp_path: Path) -> None:
    def trained(iterations: int, stop: int | None) -> torch.Tensor:
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.AdamW(model.parameters())
        for i in range(iterations):
            if i == stop:
                path = tmp_path / "o.safetensors"
                save(path, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
                model = torch.nn.Linear(3, 1)
                optimizer = torch.optim.AdamW(model.parameters())
                state = load(path)
                model.load_state_dict(state["model"])
                optimizer.load_state_dict(state["optimizer"])
            optimizer.zero_grad()
            model(torch.ones(1, 3) * i).square().sum().backward()
            optimizer.step()
        return model.weight.detach()

    assert torch.equal(trained(7, stop=None), trained(7, stop=4))


@pytest.mark.parametrize("where", [0.3, 0.6, 0.999])
def test_a_flipped_bit_is_detected(where: float, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save(path, {"weights": torch.randn(100), "iteration": 5})
    content = bytearray(path.read_bytes())
    content[int(where * len(content))] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"damaged|cannot be read|not a checkpoint"):
        load(path)


@pytest.mark.parametrize("content", [b"", b"\x80\x04N.", b"{}", bytes(1000)])
def test_other_files_are_not_checkpoints(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="cannot be read as a checkpoint"):
        load(path)


def test_code_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"cannot hold a function \(at /callback\)"):
        save(tmp_path / "a.safetensors", {"callback": load})
    assert list(tmp_path.iterdir()) == []


def test_only_the_most_recent_checkpoints_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep=2)
    for iteration in (5, 10, 15, 100_000_000):
        checkpoints.save(iteration, {"iteration": iteration})
    assert [path.stem for path in checkpoints.numbered()] == ["100000000", "00000015"]
    assert checkpoints.latest() == {"iteration": 100_000_000}


def test_damaged_checkpoints_are_skipped_with_a_warning(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=3)
    for iteration in (1, 2):
        checkpoints.save(iteration, {"iteration": iteration})
    path = tmp_path / "00000002.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.warns(UserWarning, match=r"00000002\.safetensors.*Using the previous checkpoint"):
        assert checkpoints.latest() == {"iteration": 1}
    (tmp_path / "00000001.safetensors").unlink()
    with (
        pytest.warns(UserWarning, match="previous checkpoint"),
        pytest.raises(CheckpointError, match="no valid checkpoint"),
    ):
        checkpoints.latest()
