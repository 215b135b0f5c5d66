"""Autoencoders with implicit encoders on binary MNIST (the first half of Table 6)."""

from dataclasses import replace

from fdsm.derivatives import Autodiff, FiniteDifference
from fdsm.objectives import SSMVR
from fdsm.projections import Gaussian, Sphere

from ..data import MNIST, Binarize, Chain, ToFloat
from ..recipes import VAE, WAE, Autoencoder, TrainingPlan

_DATA = MNIST(validation=0.2, seed=2019, transform=Chain((ToFloat(), Binarize())))
_FINITE, _EXACT = SSMVR(FiniteDifference(), Sphere(0.1)), SSMVR(Autodiff(), Gaussian())
_PLAN = TrainingPlan(100_000, 128, 50, 2000, 5000)

_COMMON = (
    "Table 6, App. C.4 and the authors' code: perceptrons with two hidden layers of 256 units, 32 "
    "latent variables and 32 noise variables, RMSprop with learning rate 1e-3, and a batch size "
    "of 128. The training images are split 80/20 and binarized at random. The NLL is estimated by "
    "AIS with 1,000 temperatures and 16 chains. Training takes 100,000 iterations, as in the "
    "caption and the configurations. The appendix says 10,000."
)
TIMES_PROVENANCE = (
    "Times are those of the step that trains the score, as published (Sec. 6.3). The authors' "
    "timing includes the forward pass of the encoder and a backward pass into the encoder whose "
    "result is not used. Ours includes the forward pass, and the backward pass ends at the "
    "latents, which are detached."
)
"""How our times compare with the published ones."""
WAE_TIMES_PROVENANCE = (
    f"{TIMES_PROVENANCE} The published times of WAE are probably ten times too small: the code "
    "adds the times of every tenth step and divides by the number of all steps."
)
"""How our times of WAE compare with the published ones."""

_VAE = f"{_COMMON} {TIMES_PROVENANCE}"
_WAE = f"{_COMMON} {WAE_TIMES_PROVENANCE}"

PAPER = (
    Autoencoder("VAE SSMVR", _EXACT, VAE, _DATA, plan=_PLAN, provenance=_VAE),
    Autoencoder("VAE FD-SSMVR", _FINITE, VAE, _DATA, plan=_PLAN, provenance=_VAE),
    Autoencoder("WAE SSMVR", _EXACT, WAE, _DATA, plan=_PLAN, provenance=_WAE),
    Autoencoder("WAE FD-SSMVR", _FINITE, WAE, _DATA, plan=_PLAN, provenance=_WAE),
)
"""The MNIST half of Table 6 as published."""

_CPU = (
    "Scale cpu: 30,000 iterations. AIS uses 500 images, 500 temperatures and 4 chains, and its "
    "first steps are ten times as long."
)

CPU = tuple(
    replace(
        recipe,
        plan=TrainingPlan(30_000, 128, 100, 3000, 3000),
        likelihood_rows=500,
        temperatures=500,
        chains=4,
        first_step=0.1,
        provenance=f"{recipe.provenance} {_CPU}",
    )
    for recipe in PAPER
)
"""The same networks with fewer iterations and a likelihood on fewer images."""
