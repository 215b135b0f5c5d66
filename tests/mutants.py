"""Break the code on purpose, one small lie at a time, and see that a test notices.

`python -m tests.mutants` copies the project, applies each mutation to the copy, runs the tests
it names there, and reports. It fails if a mutant survives or a mutation no longer applies.
"""

import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Mutation:
    """A lie: in `file`, `truth` is replaced by `lie`, and some test in `tests` must fail."""

    name: str
    file: str
    truth: str
    lie: str
    tests: str = "tests/objectives"


TAYLOR = "tests/derivatives/taylor"
MUTATIONS = (
    Mutation("SSM: lost ½", "objectives/sliced.py", "slopes.square().sum(0) / 2", "slopes.square().sum(0)"),
    Mutation("SSM: sign of the curvature", "objectives/sliced.py", "total = curvature +", "total = -curvature +"),
    Mutation("SSM: sum over directions for mean", "objectives/sliced.py", "(len(slopes) * self.", "(1 * self."),
    Mutation("SSMVR: lost 1/d", "objectives/sliced.py", "/ (2 * dimension(x))", "/ 2"),
    Mutation("SSMVR: lost C_v", "objectives/sliced.py", "curvature / self.projection.second_moment(x) +", "curvature +"),
    Mutation("DSM: sign of the target", "objectives/denoising.py", "*cond) + noise / self.sigma**2", "*cond) - noise / self.sigma**2"),
    Mutation("DSM: σ for σ²", "objectives/denoising.py", "+ noise / self.sigma**2", "+ noise / self.sigma"),
    Mutation("DSM: lost 1/d", "objectives/denoising.py", "return dot(residual, residual) / dimension(x)", "return dot(residual, residual)"),
    Mutation("FD-DSM: σ for σ², as the paper's listing", "objectives/denoising.py", "dot(v, noise) / self.sigma**2", "dot(v, noise) / self.sigma"),
    Mutation("FD-DSM: sign of the target", "objectives/denoising.py", "slope + dot(v, noise)", "slope - dot(v, noise)"),
    Mutation("FD-DSM: differences at the clean data", "objectives/denoising.py", "average(loss, x + noise, v,", "average(loss, x, v,"),
    Mutation("multi-scale DSM: σ² for σ⁴", "objectives/denoising.py", "self.objective.sigma**4", "self.objective.sigma**2"),
    Mutation("SM: lost ½", "objectives/exact.py", "slopes.square().sum(0) / 2", "slopes.square().sum(0)"),
    Mutation("SM: lost 1/d", "objectives/exact.py", "(dimension(x) * self.step**2)", "(self.step**2)"),
    Mutation("annealing: σ for σ²", "objectives/annealed.py", "sigma.square() * losses", "sigma * losses"),
    Mutation("annealed DSM: sign of the target", "objectives/annealed.py", "*cond) + z", "*cond) - z"),
    Mutation("MLE: sign", "objectives/likelihood.py", "return -checked", "return checked"),
    Mutation("NCE: sign of a contrast", "objectives/contrastive.py", "softplus(plus - centre)", "softplus(centre - plus)"),
    Mutation("MPF: lost ½ in the exponent", "objectives/contrastive.py", "((plus - centre) / 2).expm1()", "(plus - centre).expm1()"),
    Mutation("naive difference: lost 4", "objectives/contrastive.py", "+ 4 * delta", "+ delta"),
    Mutation("approximate backprop: W for W∘W", "objectives/layerwise.py", "p.square() for name", "p for name"),
    Mutation("curvature propagation: sign of the imaginary part", "objectives/layerwise.py", "dot(real, real) - dot", "dot(real, real) + dot"),
    Mutation("coupling: the same half for all", "objectives/layerwise.py", "g_kept + g_shift, g_moved", "g_kept, g_moved"),
    Mutation("SUMO: survival of the next term", "objectives/latent.py", "0) * k  #", "0) * (k + 1)  #"),
    Mutation("SUMO: fresh noise at every node", "objectives/latent.py", "noise[used], *", "torch.randn_like(noise[used]), *"),
    Mutation("stencil: lost k!", "derivatives/stencil.py", "math.factorial(k) * c", "c", "tests/derivatives/test_stencil.py"),
    Mutation("stencil: sign of a node", "derivatives/stencil.py", "(a - b) / (here - other)", "(a + b) / (here - other)", "tests/derivatives/test_stencil.py"),
    Mutation("conditions tiled in the wrong order", "tensors.py", "return x.repeat(n, *[1] * (x.ndim - 1))", "return x.repeat_interleave(n, 0)", "tests/derivatives/test_finite.py"),
    Mutation("finite differences change the data", "derivatives/finite.py", "torch.add(x, v, alpha=node)", "x.add_(v, alpha=node)", "tests/derivatives/test_finite.py"),
    Mutation("autodiff changes the data", "derivatives/autodiff.py", "x.view_as(x).requires_grad_()", "x.requires_grad_()", "tests/derivatives/test_finite.py"),
    Mutation("Taylor: lost k!", "derivatives/taylor/engine.py", "math.factorial(k) * y[k] if k > 1", "y[k] if k > 1", f"{TAYLOR}/test_engine.py"),
    Mutation("Taylor: half the curvature", "derivatives/taylor/engine.py", "return y[1:-1], 2 * y[-1]", "return y[1:-1], y[-1]", f"{TAYLOR}/test_engine.py"),
    Mutation("Taylor: no fallback", "derivatives/taylor/engine.py", "return otherwise(self.fallback)", "raise", f"{TAYLOR}/test_engine.py"),
    Mutation("Taylor: curvature of the last slope alone", "derivatives/taylor/composition.py", "squares = _dot(u[truncation.block(1)], u[truncation.block(1)])", "squares = u[truncation.block(1)][-1].square()", f"{TAYLOR}/test_engine.py"),
    Mutation("Taylor: lost ½ of the curvature of an activation", "derivatives/taylor/composition.py", "out=y[-1]).mul_(0.5)", "out=y[-1])", f"{TAYLOR}/test_engine.py"),
    Mutation("Taylor: lost ½, with a curvature before", "derivatives/taylor/composition.py", "squares, value=0.5)", "squares, value=1.0)", f"{TAYLOR}/rules/test_elementwise.py"),
    Mutation("Taylor: gradient without the third derivative", "derivatives/taylor/composition.py", "grad[-1], value=0.5)", "grad[-1], value=0.0)", f"{TAYLOR}/test_engine.py {TAYLOR}/rules/test_elementwise.py"),
    Mutation("Taylor: gradient of slopes without the second derivative", "derivatives/taylor/composition.py", "addcmul_(u[slopes], second * grad[-1])", "addcmul_(u[slopes], 0 * grad[-1])", f"{TAYLOR}/test_engine.py {TAYLOR}/rules/test_elementwise.py"),
    Mutation("Taylor: recurrence without its factor", "derivatives/taylor/composition.py", "j * u[j] * slope[k - j]", "u[j] * slope[k - j]", f"{TAYLOR}/rules/test_elementwise.py"),
    Mutation("Taylor: a bias for all coefficients", "derivatives/taylor/rules/arithmetic.py", "c[:rows].add_(b)", "c.add_(b)", f"{TAYLOR}/test_engine.py {TAYLOR}/rules/test_arithmetic.py"),
    Mutation("Taylor: product rule without its mixed term", "derivatives/taylor/algebra.py", "range(1, min(b.degree, top - i) + 1)", "range(1, 1)", f"{TAYLOR}/rules/test_arithmetic.py"),
    Mutation("Taylor: slope of softplus", "derivatives/taylor/rules/activation.py", "first = torch.addcmul(s, s, s, value=-1)", "first = torch.addcmul(s, s, s, value=1)", f"{TAYLOR}/rules/test_activation.py"),
    Mutation("Taylor: gradients not reversed", "derivatives/taylor/rules/autograd.py", "range(truncation.order, -1, -1)", "range(truncation.order + 1)", f"{TAYLOR}/rules/test_autograd.py"),
    Mutation("Taylor: no look at gradients switched off", "derivatives/taylor/jet.py", "if truncation.propagation.recording and not torch.is_grad_enabled():", "if False:", f"{TAYLOR}/test_custom_functions.py"),
    Mutation("Taylor: nothing noticed where gradients are off", "derivatives/taylor/engine.py", "propagation.keeping = x.requires_grad", "propagation.recording = False", f"{TAYLOR}/test_custom_functions.py"),
    Mutation("Taylor: custom functions that return constants", "derivatives/taylor/jet.py", "requires_grad=coefficients.is_floating_point()", "requires_grad=False", f"{TAYLOR}/test_custom_functions.py"),
    Mutation("Taylor: custom functions that return jets", "derivatives/taylor/jet.py", "if x.grad_fn is not None:", "if False:", f"{TAYLOR}/test_custom_functions.py"),
    Mutation("Taylor: runs may mix", "derivatives/taylor/jet.py", "if x.truncation.propagation is not propagation:", "if False:", f"{TAYLOR}/test_engine.py"),
    Mutation("Taylor: gradients of short series", "derivatives/taylor/rules/autograd.py", "x.coefficients = c if c.requires_grad else", "x.coefficients = x.coefficients if c.requires_grad else", f"{TAYLOR}/rules/test_autograd.py"),
    Mutation("Taylor: plain tensors are replaced", "derivatives/taylor/jet.py", "raise MissingRule(plain_target_message(name, instead, target))", "return out_of_place(target, *args, **kwargs)", f"{TAYLOR}/test_in_place.py"),
    Mutation("Taylor: views do not follow", "derivatives/taylor/jet.py", "jet.coefficients.clone() if jet.shared else jet.coefficients", "jet.coefficients", f"{TAYLOR}/test_in_place.py"),
    Mutation("Taylor: variance of a norm", "derivatives/taylor/rules/normalization.py", "- 1.5 * a * a", "- 0.5 * a * a", f"{TAYLOR}/rules/test_normalization.py"),
    Mutation("Taylor: ReLU the wrong way round", "derivatives/taylor/rules/piecewise.py", "return _zero_where(x, x.value <= 0)", "return _zero_where(x, x.value > 0)", f"{TAYLOR}/rules/test_piecewise.py"),
    Mutation("Taylor: attention without its scale", "derivatives/taylor/rules/attention.py", "query.shape[-1] ** -0.5 if scale is None", "1.0 if scale is None", f"{TAYLOR}/rules/test_attention.py"),
    Mutation("autodiff: no warning of norms", "derivatives/autodiff.py", "if isinstance(module, (nn.LayerNorm, _InstanceNorm)):", "if False:", "tests/derivatives/test_autodiff.py"),
    Mutation("no shape check", "derivatives/checks.py", "if y.shape != x.shape[:1]:", "if False:", "tests/derivatives/test_checks.py"),
    Mutation("differences in float32", "derivatives/precision.py", "else values.double()", "else values", "tests/derivatives/test_precision.py"),
    Mutation("autocast is not left", "derivatives/precision.py", "torch.autocast(device.type, enabled=False)", "torch.autocast(device.type, enabled=True)", "tests/derivatives/test_precision.py"),
    Mutation("no replay of random numbers", "derivatives/finite.py", "replay(state, device)", "pass", "tests/derivatives/test_randomness.py"),
    Mutation("sphere of the last dimension only", "projections.py", "length(v) / self.radius, v)", "length(v, 1) / self.radius, v[0])", "tests/test_projections.py"),
    Mutation("Rademacher: lost 1/√d", "projections.py", "self.radius / math.sqrt(dimension(x))", "self.radius", "tests/test_projections.py"),
    Mutation("step size: orders exchanged", "derivatives/step.py", "(order * noise[onset] / (accuracy * truncation))", "(accuracy * noise[onset] / (order * truncation)) * 64", "tests/derivatives/test_step.py"),
    Mutation("conditions dropped by contrasts", "objectives/contrastive.py", "x, v, nodes, *cond)", "x, v, nodes)"),
    Mutation("conditions dropped by penalties", "objectives/penalties.py", "x, v, 1, *cond)", "x, v, 1)"),
    Mutation("conditions dropped by exact score matching", "objectives/exact.py", "units, *cond)", "units)"),
    Mutation("annealing: σ² passed for σ", "objectives/annealed.py", "x_noisy, sigma, *cond", "x_noisy, sigma.square(), *cond"),
    Mutation("Langevin: down the score", "samplers/langevin.py", "x + a * s + math", "x - a * s + math", "tests/samplers/test_langevin.py"),
    Mutation("Langevin: lost 2", "samplers/langevin.py", "math.sqrt(2 * a * temperature)", "math.sqrt(a * temperature)", "tests/samplers/test_langevin.py"),
    Mutation("annealed Langevin: σ for σ²", "samplers/langevin.py", "(sigma / levels[-1]) ** 2", "(sigma / levels[-1])", "tests/samplers/test_langevin.py"),
    Mutation("HMC: lost ½ of the kinetic energy", "samplers/hmc.py", "(dot(p, p) - dot(p_end, p_end)) / 2", "(dot(p, p) - dot(p_end, p_end))", "tests/samplers/test_hmc.py"),
    Mutation("AIS: lost prior", "samplers/ais.py", "* (target(x) - prior(x))", "* target(x)", "tests/samplers/test_ais.py"),
    Mutation("importance: lost proposal", "samplers/importance.py", "f(x).double() - q(x).double()", "f(x).double()", "tests/samplers/test_importance.py"),
    Mutation("exact SM of a density: lost ½", "evaluation/score_matching.py", "slopes.double().square().sum(0) / 2", "slopes.double().square().sum(0)", "tests/evaluation/test_score_matching.py"),
    Mutation("exact SM: coordinates twice", "tensors.py", "torch.split(torch.arange(d, device=x.device), chunk)", "torch.split(torch.arange(d, device=x.device).clamp(max=chunk - 1), chunk)", f"{TAYLOR}/test_engine.py"),
    Mutation("exact SM: lost ½", "evaluation/score_matching.py", "trace + dot(s, s) / 2", "trace + dot(s, s)", "tests/evaluation/test_score_matching.py"),
    Mutation("NICE: lost scale", "models/nice.py", "constant = self.scale.log_scale.sum() -", "constant = -", "tests/models/test_nice.py"),
    Mutation("DKEF: sign of α", "models/normal_equations.py", "result: Tensor = -torch", "result: Tensor = torch", "tests/models/test_dkef.py"),
    Mutation("DKEF: lost base measure", "models/normal_equations.py", "curvatures.sum(0) + dot(base_score, v) @ slopes", "curvatures.sum(0)", "tests/models/test_dkef.py"),
    Mutation("logit: sign of the Jacobian", "data/transforms/values.py", "-(x.log() + (-x).log1p())", "(x.log() + (-x).log1p())", "tests/data/test_transforms.py"),
    Mutation("VAE: sign of the entropy", "experiments/implicit.py", "dot(score, z) + dot(z, z) / 2", "dot(z, z) / 2 - dot(score, z)", "tests/experiments/test_families.py"),
    Mutation("VAE: lost prior", "experiments/implicit.py", "dot(score, z) + dot(z, z) / 2", "dot(score, z)", "tests/experiments/test_families.py"),
    Mutation("VAE: the score is learnt through the encoder", "experiments/implicit.py", "GradientStep(score_loss, auto.score,", "GradientStep(score_loss, auto.encoder,", "tests/experiments/test_families.py"),
    Mutation("batches: the same order every epoch", "training/batches.py", "derived_seed(self.seed, epoch)", "derived_seed(self.seed)", "tests/training"),
    Mutation("average: the other weight", "training/ema.py", "mean.lerp_(now, 1 - memory)", "mean.lerp_(now, memory)", "tests/training"),
    Mutation("step: the optimiser runs on NaN", "training/step.py", "if bool((loss + norm).isfinite()):", "if True:", "tests/training"),
    Mutation("schedule: not applied", "training/step.py", "* self.recipe.schedule(done)", "", "tests/training"),
    Mutation("checkpoint: digest not compared", "training/checkpoint.py", "!= _digest(metadata", "== 0 and _digest(metadata", "tests/training"),
    Mutation("validation: the largest is best", "training/hooks.py", "if value < self.best:", "if value > -self.best:", "tests/training"),
    Mutation("resume: random numbers not restored", "experiments/train.py", "self.generator.set_state", "len", "tests/experiments/test_train.py"),
    Mutation("resume: average not restored", "experiments/train.py", "self.average.load_state_dict(", "len(", "tests/experiments/test_train.py"),
    Mutation("score: lost Jacobian", "experiments/trained.py", " + transform.log_det(x)", "", "tests/experiments/test_trained.py"),
    Mutation("score: tail the wrong way", "experiments/trained.py", "1 - below / len(usual)", "below / len(usual)", "tests/experiments/test_trained.py"),
    Mutation("times: the first rounds count", "experiments/pace.py", "statistics.median(seconds[1:])", "statistics.mean(seconds)", "tests/experiments/test_pace.py"),
    Mutation("resume: torch's random numbers not restored", "experiments/train.py", "torch.set_rng_state(", "len(", "tests/experiments/test_train.py"),
    Mutation("validation: in training mode", "experiments/train.py", "model.eval()  # dropout", "pass  # dropout", "tests/experiments/test_train.py"),
    Mutation("OOD: inside and outside exchanged", "experiments/deep_ebm.py", "ood_auc(model, train, test, others,", "ood_auc(model, train, others, test,", "tests/experiments/test_families.py"),
    Mutation("samples stay in the model's space", "experiments/trained.py", "self.transform.inverse(y.cpu())", "y.cpu()", "tests/experiments/test_trained.py"),
    Mutation("DKEF: loss per dimension", "experiments/dkef_uci.py", "return fitted.shape[1] * self.objective(", "return self.objective(", "tests/experiments/test_families.py"),
    Mutation("bytes: never let go", "experiments/pace.py", "self.kept.count(self.tensor, -1)", "self.kept.count(self.tensor, 0)", "tests/experiments/test_pace.py"),
    Mutation("reproduce: made again", "experiments/place.py", 'if not (run.folder / "result.json").exists():', "if True:", "tests/experiments/test_reproduce.py"),
    Mutation("reproduce: results of another recipe", "experiments/place.py", "if changes:", "if False:", "tests/experiments/test_reproduce.py"),
    Mutation("reproduce: timed with others", "experiments/reproduce.py", 'all(run.result.get("timed_with") == names', 'any(run.result.get("timed_with")', "tests/experiments/test_reproduce.py"),
    Mutation("reproduce: studies of other models", "experiments/reproduce.py", 'place.outdated(before["recipes"])', "[]", "tests/experiments/test_reproduce.py"),
    Mutation("evaluation: the first test rows", "experiments/evaluate.py", "test=mixed(data.test)", "test=data.test", "tests/experiments/test_train.py"),
    Mutation("times: of the whole step", "experiments/pace.py", "run.recipe.timed(run.recipe.step(self.model, self.data))", "run.recipe.step(self.model, self.data)", "tests/experiments/test_pace.py"),
    Mutation("race: the other way round", "experiments/figure4.py", "mine / its,", "its / mine,", "tests/experiments/test_figure4.py"),
    Mutation("neighbourhoods: lost volume", "experiments/neighbourhoods.py", "/ 2 - log_volume", "/ 2", "tests/experiments/test_dkef_uci.py"),
    Mutation("SM equations: twice the Laplacian", "models/normal_equations.py", "_full(gradients, laplacians, ", "_full(gradients, 2 * laplacians, ", "tests/models/test_dkef.py"),
    Mutation("document: ratio upside down", "report/document.py", "self.mean(target, row, metric) / self.mean(target, other, metric)", "self.mean(target, other, metric) / self.mean(target, row, metric)", "tests/report/test_document.py"),
    Mutation("graph: lost depth", "experiments/graphs.py", "depths[start] + 1", "depths[start]", "tests/experiments/test_graphs.py"),
    Mutation("theorem 2: the bias of the step", "experiments/wells.py", "3 * step**2 / (d + 2)", "3 * step**2 / d", "tests/experiments/test_wells.py"),
    Mutation("autoencoder: sign of the likelihood", "experiments/autoencoder_mnist.py", "mean_of(-torch.cat(found)", "mean_of(torch.cat(found)", "tests/experiments/test_families.py"),
    Mutation("gap: coefficients of the validation rows", "experiments/gap.py", "data.transform.fixed(data.train).to(", "data.transform.fixed(data.validation).to(", "tests/experiments/test_gap.py"),
    Mutation("gap: coefficients as they were", "experiments/gap.py", "equations=ExactEquations()", "equations=recipe.equations", "tests/experiments/test_gap.py"),
    Mutation("gap: sign of the normaliser", "experiments/gap.py", "log_z - log_densities", "-log_z - log_densities", "tests/experiments/test_gap.py"),
    Mutation("command: a reader who leaves", "cli/command.py", "sys.exit(141)", "sys.exit(1)", "tests/test_cli.py"),
)  # fmt: skip


def applied(mutation: Mutation, source: str) -> str:
    """Return the source with the lie in it, wherever the truth stood.

    Args:
        mutation: What to change.
        source: The file as it is.

    Returns:
        The changed file.

    Raises:
        LookupError: If the truth is not to be found.
    """
    if mutation.truth not in source:
        raise LookupError(f"{mutation.name}: no {mutation.truth!r} in {mutation.file}")
    return source.replace(mutation.truth, mutation.lie)


def is_noticed(mutation: Mutation) -> bool:
    """Return whether the tests fail in a copy of the project with the mutation in it."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        for folder in ("fdsm", "tests"):
            shutil.copytree(ROOT / folder, copy / folder)
        shutil.copy(ROOT / "pyproject.toml", copy)
        file = copy / "fdsm" / mutation.file
        file.write_text(applied(mutation, file.read_text(encoding="utf8")), encoding="utf8")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, *mutation.tests.split()], cwd=copy, capture_output=True, check=False
        )
    if done.returncode not in {0, 1}:
        raise RuntimeError(f"{mutation.name}: the tests did not run\n{done.stdout.decode()}")
    return done.returncode == 1


def main() -> None:
    """Try all mutations, two at a time, and report."""
    with ThreadPoolExecutor(2) as pool:
        noticed = list(pool.map(is_noticed, MUTATIONS))
    table = Table("mutation", "noticed")
    for mutation, killed in zip(MUTATIONS, noticed, strict=True):
        table.add_row(mutation.name, "yes" if killed else "[bold red]NO")
    Console().print(table)
    survivors = noticed.count(False)
    print(f"{len(noticed) - survivors} noticed, {survivors} not")
    sys.exit(survivors > 0)


if __name__ == "__main__":
    main()
