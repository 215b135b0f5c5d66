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
    Mutation("FD-DSM: differences at the clean data", "objectives/denoising.py", "average(loss, x + noise, v,", "average(loss, x, v,"),
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
    Mutation("SUMO: survival of the next term", "objectives/latent.py", "0) * k  #", "0) * (k + 1)  #"),
    Mutation("stencil: no k!", "derivatives/stencil.py", "math.factorial(k) * c", "c", "tests/derivatives/test_stencil.py"),
    Mutation("stencil: sign of a node", "derivatives/stencil.py", "(a - b) / (here - other)", "(a + b) / (here - other)", "tests/derivatives/test_stencil.py"),
    Mutation("Taylor: no k!", "derivatives/taylor/engine.py", "math.factorial(k) * y[k] if k > 1", "y[k] if k > 1", f"{TAYLOR}/test_engine.py"),
    Mutation("Taylor: no factor 2 in the curvature", "derivatives/taylor/engine.py", "return y[1:-1], 2 * y[-1]", "return y[1:-1], y[-1]", f"{TAYLOR}/test_engine.py"),
    Mutation("Taylor: curvature of the last direction only", "derivatives/taylor/composition.py", "squares = _dot(u[truncation.block(1)], u[truncation.block(1)])", "squares = u[truncation.block(1)][-1].square()", f"{TAYLOR}/test_engine.py"),
    Mutation("Taylor: no ½ in the curvature of an activation", "derivatives/taylor/composition.py", "out=y[-1]).mul_(0.5)", "out=y[-1])", f"{TAYLOR}/test_engine.py"),
    Mutation("Taylor: no ½ if the argument has a curvature", "derivatives/taylor/composition.py", "squares, value=0.5)", "squares, value=1.0)", f"{TAYLOR}/test_engine.py"),
    Mutation("Taylor: gradient without the third derivative", "derivatives/taylor/composition.py", "grad[-1], value=0.5)", "grad[-1], value=0.0)", f"{TAYLOR}/test_engine.py {TAYLOR}/test_elementwise.py"),
    Mutation("Taylor: gradient of slopes without the second derivative", "derivatives/taylor/composition.py", "addcmul_(u[slopes], second * grad[-1])", "addcmul_(u[slopes], 0 * grad[-1])", f"{TAYLOR}/test_engine.py {TAYLOR}/test_elementwise.py"),
    Mutation("Taylor: recurrence without its factor", "derivatives/taylor/composition.py", "j * u[j] * slope[k - j]", "u[j] * slope[k - j]", f"{TAYLOR}/test_engine.py"),
    Mutation("Taylor: product rule without its mixed term", "derivatives/taylor/products.py", "range(1, min(b.degree, top - i) + 1)", "range(1, 1)", f"{TAYLOR}/test_products.py"),
    Mutation("Taylor: slope of softplus", "derivatives/taylor/elementwise.py", "first = torch.addcmul(s, s, s, value=-1)", "first = torch.addcmul(s, s, s, value=1)", f"{TAYLOR}/test_elementwise.py"),
    Mutation("Taylor: variance of a norm", "derivatives/taylor/normalisation.py", "- 1.5 * a * a", "- 0.5 * a * a", f"{TAYLOR}/test_normalisation.py"),
    Mutation("Taylor: ReLU of the opposite sign", "derivatives/taylor/kinks.py", "return _without(x, x.value <= 0)", "return _without(x, x.value > 0)", f"{TAYLOR}/test_kinks.py"),
    Mutation("Taylor: attention without its scale", "derivatives/taylor/attention.py", "query.shape[-1] ** -0.5 if scale is None", "1.0 if scale is None", f"{TAYLOR}/test_attention.py"),
    Mutation("sphere: norm of the last dimension only", "projections.py", "length(v) / self.radius, v)", "length(v, 1) / self.radius, v[0])", "tests/test_projections.py"),
    Mutation("Rademacher: no 1/√d", "projections.py", "self.radius / math.sqrt(dimension(x))", "self.radius", "tests/test_projections.py"),
    Mutation("step size: orders exchanged", "derivatives/step.py", "(order * noise[onset] / (accuracy * truncation))", "(accuracy * noise[onset] / (order * truncation)) * 64", "tests/derivatives/test_step.py"),
    Mutation("Langevin: sign of the score", "samplers/langevin.py", "x + a * s + math", "x - a * s + math", "tests/samplers/test_langevin.py"),
    Mutation("Langevin: no factor 2", "samplers/langevin.py", "math.sqrt(2 * a * temperature)", "math.sqrt(a * temperature)", "tests/samplers/test_langevin.py"),
    Mutation("annealed Langevin: σ instead of σ²", "samplers/langevin.py", "(sigma / levels[-1]) ** 2", "(sigma / levels[-1])", "tests/samplers/test_langevin.py"),
    Mutation("HMC: no ½ in the kinetic energy", "samplers/hmc.py", "(dot(p, p) - dot(p_end, p_end)) / 2", "(dot(p, p) - dot(p_end, p_end))", "tests/samplers/test_hmc.py"),
    Mutation("AIS: no prior", "samplers/ais.py", "* (target(x) - prior(x))", "* target(x)", "tests/samplers/test_ais.py"),
    Mutation("importance: no proposal", "samplers/importance.py", "f(x).double() - q(x).double()", "f(x).double()", "tests/samplers/test_importance.py"),
    Mutation("exact SM of a density: no ½", "evaluation/score_matching.py", "slopes.double().square().sum(0) / 2", "slopes.double().square().sum(0)", "tests/evaluation/test_score_matching.py"),
    Mutation("exact SM: no ½", "evaluation/score_matching.py", "trace + dot(s, s) / 2", "trace + dot(s, s)", "tests/evaluation/test_score_matching.py"),
    Mutation("AUC: reference mean without its error", "evaluation/ood.py", "math.hypot(error, _deviation(", "math.hypot(error, 0 * _deviation(", "tests/evaluation/test_ood.py"),
)  # fmt: skip
