r"""The partition function of kernel families on Parkinsons, by annealed importance sampling.

Table 1 estimates $\log Z$ by importance sampling from $N(0, 4I)$, as published, and from a
proposal near the data. On Parkinsons the two differ. Annealed importance sampling from each of the
proposals gives two further estimates. With fixed step sizes all four estimates of $Z$ are
unbiased. Adapted step sizes bias them, and lose the narrow part of these densities. All of them
start at a proposal, so a region that both proposals miss does not show.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import torch
from torch import Generator, Tensor

from fdsm.evaluation import Measurement, mean_of
from fdsm.models import DKEF
from fdsm.samplers import (
    GaussianMixtureProposal,
    LogMean,
    MixtureProposal,
    Progress,
    ais,
    log_mean_exp,
    sigmoid_schedule,
)
from fdsm.training import derived_seed
from fdsm.typing import LogDensity, NormalizedDensity

from ..data import Dataset
from ..recipes import BASE_SCALE, KernelFamily, adapt_proposal, seeded
from ..run_store import RunStore
from ..runs import SavedModel
from ..study import StudyResult

AIS = "AIS"
WIDE, NEAR = "N(0, 4I)", "near the data"
Estimates = Mapping[str, Measurement]


@dataclass(frozen=True)
class LogPartitionStudy:
    """Estimates of log Z by importance sampling and by annealed importance sampling.

    Attributes:
        rows: Rows of Table 1.
        seeds: Number of seeds of each row.
        chains: Number of chains from each proposal.
        temperatures: Number of temperatures from N(0, 4I) and from near the data.
        leapfrog: Number of leapfrog steps of a move.
        step_size: Mean length of a leapfrog step.
        jitter: Relative half-width of the uniform distribution of step lengths.
        repetitions: Number of estimates for the known density.
        scales: Standard deviations of the known density, a mixture of Gaussians around zero.
    """

    rows: tuple[str, ...] = ("Parkinsons SSM", "Parkinsons SSMVR", "Parkinsons FD-SSM")
    seeds: int = 3
    chains: int = 500
    temperatures: tuple[int, int] = (1000, 100)
    leapfrog: int = 5
    step_size: float = 0.2
    jitter: float = 0.9
    repetitions: int = 8
    scales: tuple[float, ...] = (2.0, 1.4, 1.0, 0.7, 0.5, 0.35)
    provenance: ClassVar[str] = (
        "Table 1. Importance sampling is as in the table, with the same samples. Annealed "
        "importance sampling uses fixed step sizes and starts from N(0, 4I) and from the proposal "
        "near the data. 'AIS' pools the weights of both. The known density is a mixture of "
        "Gaussians in 15 dimensions with log Z = 0. Errors of means over runs are standard errors."
    )

    def run(self, store: RunStore, seed: int, progress: Progress) -> StudyResult:
        """Return the estimates for runs of Table 1, training them first if necessary.

        Args:
            store: The runs of the table.
            seed: The first seed.
            progress: Wraps the loop over runs to show its progress.
        """
        pairs = [(row, seed + i) for row in self.rows for i in range(self.seeds)]
        by_run: dict[tuple[str, int], Estimates] = {}
        nlls: dict[str, list[float]] = {row: [] for row in self.rows}
        for i in progress(range(len(pairs))):
            row, run_seed = pairs[i]
            saved = store.trained("table1", row, run_seed)
            data = replace(saved.run.recipe.data.load(), transform=saved.transform)
            # The name of the seed determines the committed numbers, so its spelling stays.
            generator = seeded(store.device, derived_seed(run_seed, "normaliser"))
            by_run[row, run_seed], unnormalized = self.estimates(saved, data, generator)
            nlls[row].append(by_run[row, run_seed][AIS].value + unnormalized)
        return StudyResult({
            f"log Z of the known density, {AIS}": self.of_known_density(
                15, seeded(store.device, seed)
            ),
            **_summary(list(by_run.values())),
            **{f"NLL, {row}, {AIS}": mean_of(_float64(nlls[row])) for row in self.rows},
            **{
                f"log Z, {row}, seed {run_seed}, {method}": log_z
                for (row, run_seed), estimates in by_run.items()
                for method, log_z in estimates.items()
            },
        })

    def estimates(
        self, saved: SavedModel, data: Dataset, generator: Generator
    ) -> tuple[dict[str, Measurement], float]:
        """Estimate log Z of a model with each method.

        Args:
            saved: The model.
            data: The data, with the transform of the model.
            generator: Random generator of the annealed chains.

        Returns:
            The estimates by method, and minus the mean of the unnormalized log-density over the
            test rows. The sum of both is the NLL.
        """
        recipe, model = cast(KernelFamily, saved.run.recipe), cast(DKEF, saved.model)
        model.requires_grad_(False)
        table = recipe.evaluate(model, data, saved.run.generator("evaluate"))
        sampled = {WIDE: table["nll"], NEAR: table["nll_near_data"]}
        f = recipe.log_density(model)
        rows = data.transform.deterministic(data.train).to(generator.device).double()
        base = GaussianMixtureProposal(torch.zeros_like(rows[:1]), BASE_SCALE)
        near = adapt_proposal(
            f, rows, base, pilot=recipe.partition_samples // 50, generator=generator
        )
        proposals: tuple[NormalizedDensity, ...] = (base, near)
        weights = [
            self.log_weights(f, proposal, count, generator)
            for proposal, count in zip(proposals, self.temperatures, strict=True)
        ]
        log_z = {method: _log_partition(nll) for method, nll in sampled.items()}
        for method, some in zip((WIDE, NEAR), weights, strict=True):
            log_z[f"{AIS} from {method}"] = _measured(log_mean_exp(some))
        log_z[AIS] = _measured(log_mean_exp(torch.cat(weights)))
        return log_z, table["nll"].value - log_z[WIDE].value

    def log_weights(
        self, f: LogDensity, proposal: NormalizedDensity, temperatures: int, generator: Generator
    ) -> Tensor:
        """Return the logarithms of annealed weights, whose mean is Z; shape `(chains,)`."""
        return ais(
            proposal,
            f,
            proposal.sample(self.chains, generator),
            temperatures=sigmoid_schedule(temperatures),
            leapfrog=self.leapfrog,
            step_size=self.step_size,
            jitter=self.jitter,
            adapt=None,
            generator=generator,
        ).log_weights

    def of_known_density(self, dimension: int, generator: Generator) -> Measurement:
        """Return the mean of repeated estimates of log Z for a density with log Z = 0."""
        zero = torch.zeros(1, dimension, dtype=torch.float64, device=generator.device)
        density = MixtureProposal(
            tuple(GaussianMixtureProposal(zero, scale) for scale in self.scales)
        )
        wide = GaussianMixtureProposal(zero, BASE_SCALE)
        estimates = [
            log_mean_exp(self.log_weights(density, wide, self.temperatures[0], generator))
            for _ in range(self.repetitions)
        ]
        own_error = (
            torch.stack([estimate.error for estimate in estimates]).square().mean().sqrt().item()
        )
        return mean_of(
            torch.stack([estimate.value for estimate in estimates]), error_of_one=own_error
        )


def _float64(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _log_partition(nll: Measurement) -> Measurement:
    """Return the estimate of log Z that an NLL was computed with."""
    value, effective, n = (
        float(cast(float, nll.settings[name]))
        for name in ("log_partition", "effective_sample_size", "partition_samples")
    )
    return Measurement(
        value, ((n / effective - 1) / (n - 1)) ** 0.5, {"effective_sample_size": effective}
    )


def _measured(log_z: LogMean) -> Measurement:
    effective = log_z.effective_sample_size.item()
    return Measurement(
        log_z.value.item(), log_z.error.item(), {"effective_sample_size": effective}
    )


def _summary(runs: list[Estimates]) -> dict[str, Measurement]:
    """Return the mean over runs of each estimate of Z relative to that by AIS."""
    return {
        f"Z by {method} over Z by {AIS}, mean over runs": mean_of(
            _float64([run[method].value - run[AIS].value for run in runs]).exp()
        )
        for method in runs[0]
        if method != AIS
    }


CPU = LogPartitionStudy()
"""About twenty minutes on one core, if the runs of Table 1 exist."""

PAPER = CPU
"""The same."""
