"""Training in JAX, with batches drawn inside the compiled step."""

import jax
from jax import Array
from torch import nn

from ..learning_problems import NoisyRows
from ..time_to_loss import BATCH, LEARNING_RATE
from .jax_losses import LOSSES, as_array, load_parameters
from .jax_steps import State, adam, initial_state


class JaxTrainer:
    """A perceptron in training with SSM, forward mode over forward mode, and Adam."""

    def __init__(self, data: NoisyRows, network: nn.Module, seed: int) -> None:
        self.network = network
        self.state = initial_state(network, seed)
        self.rows, self.scale = as_array(data.rows), as_array(data.scale)
        loss = LOSSES["SSM jvp(jvp)"]

        def step(state: State, rows: Array, scale: Array) -> tuple[State, Array]:
            key, choose, disturb, slice_ = jax.random.split(state.key, 4)
            chosen = rows[jax.random.randint(choose, (BATCH,), 0, len(rows))]
            x = (chosen + data.noise * jax.random.normal(disturb, chosen.shape)) / scale
            value, gradient = jax.value_and_grad(loss.at)(state.parameters, x, slice_)
            return adam(state._replace(key=key), gradient, LEARNING_RATE), value

        self.compiled = jax.jit(step, donate_argnums=0)

    def step(self) -> object:
        """Draw a batch and update the parameters."""
        self.state, value = self.compiled(self.state, self.rows, self.scale)
        return value

    def wait(self) -> None:
        """Wait until all steps are finished."""
        jax.block_until_ready(self.state)

    def model(self) -> nn.Module:
        """Return the network with the current parameters."""
        load_parameters(self.network, self.state.parameters)
        return self.network
