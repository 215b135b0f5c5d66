"""Formulas with one deliberate error each: a sign, a factor or an exponent."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """A change of one formula, which at least one test must notice.

    Attributes:
        name: The error that it introduces.
        file: The file, relative to the package.
        original: The text that is replaced.
        mutated: The text that replaces it.
        tests: The tests to run, separated by spaces.
    """

    name: str
    file: str
    original: str
    mutated: str
    tests: str = "tests/objectives"


TAYLOR = "tests/derivatives/taylor"
RULES = f"{TAYLOR}/rules"
DIFFERENCE = "tests/derivatives/test_difference_error.py"
FORMULAS = (
    Mutation("SSM: no ½", "objectives/sliced.py", "slopes.square().sum(0) / 2", "slopes.square().sum(0)"),
    Mutation("SSM: sign of the curvature", "objectives/sliced.py", "total = curvature +", "total = -curvature +"),
    Mutation("SSM: sum over directions instead of mean", "objectives/sliced.py", "(len(slopes) * self.", "(1 * self."),
    Mutation("SSMVR: no 1/d", "objectives/sliced.py", "/ (2 * dimension(x))", "/ 2"),
    Mutation("SSMVR: no second moment of the directions", "objectives/sliced.py", "curvature / self.projection.second_moment(x) +", "curvature +"),
    Mutation("DSM: sign of the target", "objectives/denoising.py", "*cond) + noise / self.sigma**2", "*cond) - noise / self.sigma**2"),
    Mutation("DSM: σ instead of σ²", "objectives/denoising.py", "+ noise / self.sigma**2", "+ noise / self.sigma"),
    Mutation("DSM: no 1/d", "objectives/denoising.py", "return dot(residual, residual) / dimension(x)", "return dot(residual, residual)"),
    Mutation("FD-DSM: σ instead of σ² (the paper's listing)", "objectives/denoising.py", "dot(v, noise) / self.sigma**2", "dot(v, noise) / self.sigma"),
    Mutation("FD-DSM: sign of the target", "objectives/denoising.py", "slope + dot(v, noise)", "slope - dot(v, noise)"),
    Mutation("FD-DSM: differences at the clean data", "objectives/denoising.py", "average_over_directions(loss, x + noise, v,", "average_over_directions(loss, x, v,"),
    Mutation("multi-scale DSM: σ² instead of σ⁴", "objectives/denoising.py", "self.objective.sigma**4", "self.objective.sigma**2"),
    Mutation("SM: no ½", "objectives/exact.py", "slopes.square().sum(0) / 2", "slopes.square().sum(0)"),
    Mutation("SM: no 1/d", "objectives/exact.py", "(dimension(x) * self.step**2)", "(self.step**2)"),
    Mutation("annealing: σ instead of σ²", "objectives/annealed.py", "sigma.square() * losses", "sigma * losses"),
    Mutation("annealed DSM: sign of the target", "objectives/annealed.py", "*cond) + z", "*cond) - z"),
    Mutation("MLE: sign", "objectives/likelihood.py", "return -checked", "return checked"),
    Mutation("NCE: sign of a contrast", "objectives/contrastive.py", "softplus(plus - centre)", "softplus(centre - plus)"),
    Mutation("MPF: no ½ in the exponent", "objectives/contrastive.py", "((plus - centre) / 2).expm1()", "(plus - centre).expm1()"),
    Mutation("naive R: no factor 4", "objectives/contrastive.py", "+ 4 * delta", "+ delta"),
    Mutation("approximate backprop: W instead of W∘W", "objectives/layerwise.py", "p.square() for name", "p for name"),
    Mutation("curvature propagation: sign of the imaginary part", "objectives/layerwise.py", "dot(real, real) - dot", "dot(real, real) + dot"),
    Mutation("coupling layer: no gradient of the shift", "objectives/layerwise.py", "g_kept + g_network, g_shifted", "g_kept, g_shifted"),
    Mutation("SUMO: survival of the next term", "objectives/latent.py", "0) * k  #", "0) * (k + 1)  #"),
    Mutation("stencil: no k!", "derivatives/stencil.py", "math.factorial(k) * c", "c", "tests/derivatives/test_stencil.py"),
    Mutation("stencil: sign of a node", "derivatives/stencil.py", "(a - b) / (here - other)", "(a + b) / (here - other)", "tests/derivatives/test_stencil.py"),
    Mutation("Taylor: no k!", "derivatives/taylor/engine.py", "math.factorial(k) * y[k] if k > 1", "y[k] if k > 1", f"{TAYLOR}/test_engine.py"),
    Mutation("Taylor: no factor 2 in the curvature", "derivatives/taylor/engine.py", "return y[1:-1], 2 * y[-1]", "return y[1:-1], y[-1]", f"{TAYLOR}/test_engine.py"),
    Mutation("Taylor: curvature of the last direction only", "derivatives/taylor/composition.py", "squares = _dot(u[truncation.block(1)], u[truncation.block(1)])", "squares = u[truncation.block(1)][-1].square()", f"{TAYLOR}/test_engine.py"),
    Mutation("Taylor: no ½ in the curvature of an activation", "derivatives/taylor/composition.py", "out=y[-1]).mul_(0.5)", "out=y[-1])", f"{TAYLOR}/test_engine.py"),
    Mutation("Taylor: no ½ if the argument has a curvature", "derivatives/taylor/composition.py", "squares, value=0.5)", "squares, value=1.0)", f"{RULES}/test_elementwise.py"),
    Mutation("Taylor: gradient without the third derivative", "derivatives/taylor/composition.py", "grad[-1], value=0.5)", "grad[-1], value=0.0)", f"{TAYLOR}/test_engine.py {RULES}/test_elementwise.py"),
    Mutation("Taylor: gradient of slopes without the second derivative", "derivatives/taylor/composition.py", "addcmul_(u[slopes], second * grad[-1])", "addcmul_(u[slopes], 0 * grad[-1])", f"{TAYLOR}/test_engine.py {RULES}/test_elementwise.py"),
    Mutation("Taylor: recurrence without its factor", "derivatives/taylor/composition.py", "j * u[j] * slope[k - j]", "u[j] * slope[k - j]", f"{RULES}/test_elementwise.py"),
    Mutation("Taylor: bias added to all coefficients", "derivatives/taylor/rules/arithmetic.py", "c[:rows].add_(b)", "c.add_(b)", f"{TAYLOR}/test_engine.py {RULES}/test_arithmetic.py"),
    Mutation("Taylor: product rule without its mixed term", "derivatives/taylor/algebra.py", "range(1, min(b.degree, top - i) + 1)", "range(1, 1)", f"{RULES}/test_arithmetic.py"),
    Mutation("Taylor: slope of softplus", "derivatives/taylor/rules/activation.py", "yield s\n    first = torch.addcmul(s, s, s, value=-1)", "yield s\n    first = torch.addcmul(s, s, s, value=1)", f"{RULES}/test_activation.py"),
    Mutation("Taylor: variance of a norm", "derivatives/taylor/rules/normalization.py", "- 1.5 * a * a", "- 0.5 * a * a", f"{RULES}/test_normalization.py"),
    Mutation("Taylor: ReLU of the opposite sign", "derivatives/taylor/rules/piecewise.py", "return _zero_where(x, x.value <= 0)", "return _zero_where(x, x.value > 0)", f"{RULES}/test_piecewise.py"),
    Mutation("Taylor: attention without its scale", "derivatives/taylor/rules/attention.py", "query.shape[-1] ** -0.5 if scale is None", "1.0 if scale is None", f"{RULES}/test_attention.py"),
    Mutation("Taylor: gradients in the order of the coefficients", "derivatives/taylor/rules/autograd.py", "range(truncation.order, -1, -1)", "range(truncation.order + 1)", f"{RULES}/test_autograd.py"),
    Mutation("Taylor: no ½ in the curvature of logsumexp", "derivatives/taylor/rules/softmax.py", "q = (slopes - mean).square().sum(0, True) / 2", "q = (slopes - mean).square().sum(0, True)", f"{RULES}/test_softmax.py"),
    Mutation("Autodiff: zero for a model that detaches its input", "derivatives/autodiff.py", "allow_unused=True", "materialize_grads=True", "tests/derivatives/test_autodiff.py"),
    Mutation("Autodiff: sign of the mean in a norm", "derivatives/normalization.py", "x - x.mean(dims", "x + x.mean(dims", "tests/derivatives/test_autodiff.py"),
    Mutation("Autodiff: sign of ε in the variance of a norm", "derivatives/normalization.py", "keepdim=True) + eps)", "keepdim=True) - eps)", "tests/derivatives/test_autodiff.py"),
    Mutation("Autodiff: standard deviation of a norm squared", "derivatives/normalization.py", "+ eps).rsqrt()", "+ eps).reciprocal()", "tests/derivatives/test_autodiff.py"),
    Mutation("Autodiff: norm without its weight", "derivatives/normalization.py", "else y * weight", "else y", "tests/derivatives/test_normalization.py"),
    Mutation("Autodiff: sign of the bias of a norm", "derivatives/normalization.py", "else y + bias", "else y - bias", "tests/derivatives/test_normalization.py"),
    Mutation("sphere: norm of the last dimension only", "projections.py", "length(v, keepdim=True)", "length(v, 1, keepdim=True)", "tests/test_projections.py"),
    Mutation("Rademacher: no 1/√d", "projections.py", "self.radius / math.sqrt(dimension(x))", "self.radius", "tests/test_projections.py"),
    Mutation("step size: orders exchanged", "derivatives/step_size.py", "(order * noise[onset] / (accuracy * truncation))", "(accuracy * noise[onset] / (order * truncation)) * 64", "tests/derivatives/test_step_size.py"),
    Mutation("step size: sign in the truncation constant", "derivatives/step_size.py", "(RATIO**accuracy - 1)", "(RATIO**accuracy + 1)", "tests/derivatives/test_step_size.py"),
    Mutation("difference error: no norm of the weights", "derivatives/difference_error.py", "torch.hypot(norm * noise,", "torch.hypot(noise,", DIFFERENCE),
    Mutation("difference error: no norm of the sixth difference", "derivatives/difference_error.py", "sixth.abs() / sixth_norm", "sixth.abs()", DIFFERENCE),
    Mutation("difference error: fourth difference instead of the sixth", "derivatives/difference_error.py", "difference(6, eighths)", "difference(4, eighths)", DIFFERENCE),
    Mutation("difference error: no √3 in the rounding of a value", "derivatives/difference_error.py", "unit_round_off(x.dtype) / math.sqrt(3)", "unit_round_off(x.dtype)", DIFFERENCE),
    Mutation("difference error: no order in the error of the step", "derivatives/difference_error.py", "order * step_error", "step_error", DIFFERENCE),
    Mutation("difference error: sign in the truncation error", "derivatives/difference_error.py", "rms(result - finer)", "rms(result + finer)", DIFFERENCE),
    Mutation("difference error: truncation relative to the coarse difference", "derivatives/difference_error.py", "_ratio(truncation, rms(finer))", "_ratio(truncation, size)", DIFFERENCE),
    Mutation("difference error: truncation from half the step", "derivatives/difference_error.py", "scale * node / 4", "scale * node / 2", DIFFERENCE),
    Mutation("difference error: noise counted as truncation", "derivatives/difference_error.py", "math.hypot(norm, finer_norm) * rms(noise)", "0.0", DIFFERENCE),
    Mutation("difference error: size with the rounding error", "derivatives/difference_error.py", "total**2 - part**2", "total**2", DIFFERENCE),
    Mutation("difference error: mean instead of the worst row", "derivatives/difference_error.py", "lost.max()", "lost.mean()", DIFFERENCE),
    Mutation("difference error: no ½ in the negligible error", "derivatives/difference_error.py", "slope.square() / 2", "slope.square()", DIFFERENCE),
    Mutation("difference error: spread of the data ignored", "derivatives/difference_error.py", "Fraction(2) ** math.floor(math.log2(spread / step))", "Fraction(1)", DIFFERENCE),
    Mutation("Langevin: sign of the score", "samplers/langevin.py", "x + a * s + math", "x - a * s + math", "tests/samplers/test_langevin.py"),
    Mutation("Langevin: no factor 2", "samplers/langevin.py", "math.sqrt(2 * a * temperature)", "math.sqrt(a * temperature)", "tests/samplers/test_langevin.py"),
    Mutation("annealed Langevin: σ instead of σ²", "samplers/langevin.py", "(sigma / levels[-1]) ** 2", "(sigma / levels[-1])", "tests/samplers/test_langevin.py"),
    Mutation("HMC: no ½ in the kinetic energy", "samplers/hmc.py", "(dot(p, p) - dot(p_end, p_end)) / 2", "(dot(p, p) - dot(p_end, p_end))", "tests/samplers/test_hmc.py"),
    Mutation("AIS: no prior", "samplers/ais.py", "* (target(x) - prior(x))", "* target(x)", "tests/samplers/test_ais.py"),
    Mutation("importance: no proposal", "samplers/importance.py", "f(x).double() - q(x).double()", "f(x).double()", "tests/samplers/test_importance.py"),
    Mutation("exact SM of a density: no ½", "evaluation/score_matching.py", "slopes.double().square().sum(0) / 2", "slopes.double().square().sum(0)", "tests/evaluation/test_score_matching.py"),
    Mutation("exact SM: no ½", "evaluation/score_matching.py", "trace + dot(s, s) / 2", "trace + dot(s, s)", "tests/evaluation/test_score_matching.py"),
    Mutation("reference density: no ½ in the loss", "evaluation/reference_density.py", "score.square().sum(1) / 2", "score.square().sum(1)", "tests/evaluation/test_reference_density.py"),
    Mutation("reference density: σ instead of σ²", "evaluation/reference_density.py", "noise**2 * identity", "noise * identity", "tests/evaluation/test_reference_density.py"),
    Mutation("reference density: no variance in the shrinkage", "evaluation/reference_density.py", "(variance / distance)", "(1 / distance)", "tests/evaluation/test_reference_density.py"),
    Mutation("Langevin: default step without curvature", "samplers/langevin.py", "STABILITY / score_lipschitz(score, x, generator)", "STABILITY + 0 * score_lipschitz(score, x, generator)", "tests/samplers/test_langevin.py"),
    Mutation("AUC: reference mean without its error", "evaluation/ood.py", "math.hypot(error, _deviation(", "math.hypot(error, 0 * _deviation(", "tests/evaluation/test_ood.py"),
    Mutation("AUC: variance of one set over the size of the other", "evaluation/ood.py", "above.var().item() / len(outside)", "above.var().item() / len(inside)", "tests/evaluation/test_ood.py"),
    Mutation("AUC: sign in the sum of the variances", "evaluation/ood.py", "/ len(outside) + below", "/ len(outside) - below", "tests/evaluation/test_ood.py"),
    Mutation("AUC: no √3 in the nodes of the reference mean", "evaluation/ood.py", "math.sqrt(3 * reference", "math.sqrt(reference", "tests/evaluation/test_ood.py"),
    Mutation("AUC: deviation of the sum instead of the mean", "evaluation/ood.py", "math.sqrt(squares / 6)", "math.sqrt(squares)", "tests/evaluation/test_ood.py"),
    Mutation("AUC: no 1 in the error of complete separation", "evaluation/ood.py", "error, name = 1 / (n + 1)", "error, name = 1 / n", "tests/evaluation/test_ood.py"),
    Mutation("AUC: ties count as failures", "evaluation/ood.py", "(below + not_above)", "(below + below)", "tests/evaluation/test_ood.py"),
    Mutation("NICE: no scale", "models/nice.py", "constant = self.scale.log_scale.sum() -", "constant = -", "tests/models/test_nice.py"),
    Mutation("DKEF: sign of α", "models/normal_equations.py", "result: Tensor = -torch", "result: Tensor = torch", "tests/models/test_dkef.py"),
    Mutation("DKEF: no base measure", "models/normal_equations.py", "curvatures.sum(0) + dot(base_score, v) @ slopes", "curvatures.sum(0)", "tests/models/test_dkef.py"),
    Mutation("DKEF: twice the Laplacian", "models/normal_equations.py", "_full(gradients, laplacians, ", "_full(gradients, 2 * laplacians, ", "tests/models/test_dkef.py"),
    Mutation("logit: sign of the Jacobian", "data/transforms/pointwise.py", "-(x.log() + (-x).log1p())", "(x.log() + (-x).log1p())", "tests/data/transforms"),
    Mutation("moving average: weights exchanged", "training/callbacks.py", "mean.lerp(new, 1 - min(", "mean.lerp(new, min(", "tests/training/test_callbacks.py"),
    Mutation("moving average: other warm-up", "training/callbacks.py", "(10 + t)))", "(2 + t)))", "tests/training/test_callbacks.py"),
    Mutation("moving average: buffers not copied", "training/callbacks.py", "avg_fn=average)", "avg_fn=average, use_buffers=True)", "tests/training/test_callbacks.py"),
    Mutation("scores of rows: no Jacobian", "runs/saved_model.py", " + transform.log_det(x)", "", "tests/runs/test_saved_model.py"),
    Mutation("scores of rows: typical for test rows", "runs/saved_model.py", "for rows in (data.train, data.test)", "for rows in (data.test, data.test)", "tests/runs/test_saved_model.py"),
    Mutation("scores of rows: p-value of the other tail", "runs/saved_model.py", "1 - more_typical / len(held_out)", "more_typical / len(held_out)", "tests/runs/test_saved_model.py"),
    Mutation("VAE: sign of the entropy", "recipes/autoencoder.py", "dot(score, z) + dot(z, z) / 2", "dot(z, z) / 2 - dot(score, z)", "tests/recipes/test_autoencoder.py"),
    Mutation("VAE: no prior", "recipes/autoencoder.py", "dot(score, z) + dot(z, z) / 2", "dot(score, z)", "tests/recipes/test_autoencoder.py"),
    Mutation("VAE: sign of the likelihood", "recipes/autoencoder.py", "mean_of(-torch.cat(found)", "mean_of(torch.cat(found)", "tests/recipes/test_autoencoder.py"),
    Mutation("local Gaussian proposal: no volume", "recipes/kernel.py", "/ 2 - log_volume", "/ 2", "tests/recipes/test_kernel.py"),
    Mutation("Theorem 2: bias of the step", "paper/support/double_well.py", "3 * step**2 / (d + 2)", "3 * step**2 / d", "tests/paper/support/test_double_well.py"),
    Mutation("Parkinsons gap: sign of log Z", "paper/studies/parkinsons_gap.py", "log_z - log_densities", "-log_z - log_densities", "tests/paper/studies/test_parkinsons_gap.py"),
)  # fmt: skip
