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
OUTLIERS = "tests/tables/outliers"
FORMULAS = (
    Mutation("SSM: no ½", "objectives/sliced.py", "sum(0), alpha=0.5)", "sum(0), alpha=1.0)"),
    Mutation("SSM: sign of the curvature", "objectives/sliced.py", "torch.add(curvature,", "torch.add(-curvature,"),
    Mutation("SSM: sum over directions instead of mean", "objectives/sliced.py", "(slopes.shape[0] * self.", "(1 * self."),
    Mutation("SSMVR: no 1/d", "objectives/sliced.py", "/ (2 * dimension(x))", "/ 2"),
    Mutation("SSMVR: no second moment of the directions", "objectives/sliced.py", "curvature / self.projection.second_moment(x) +", "curvature +"),
    Mutation("DSM: sign of the target", "objectives/denoising.py", "*cond) + noise / sigma**2", "*cond) - noise / sigma**2"),
    Mutation("DSM: σ instead of σ²", "objectives/denoising.py", "+ noise / sigma**2", "+ noise / sigma"),
    Mutation("DSM: no 1/d", "objectives/denoising.py", "return dot(residual, residual) / dimension(x)", "return dot(residual, residual)"),
    Mutation("FD-DSM: σ instead of σ² (the paper's listing)", "objectives/denoising.py", "dot(v, noise) / self.sigma**2", "dot(v, noise) / self.sigma"),
    Mutation("FD-DSM: sign of the target", "objectives/denoising.py", "slope + dot(v, noise)", "slope - dot(v, noise)"),
    Mutation("multi-scale DSM: σ² instead of σ⁴", "objectives/denoising.py", "self.objective.sigma**4", "self.objective.sigma**2"),
    Mutation("SM: no ½", "objectives/exact.py", "slopes.square().sum(0) / 2", "slopes.square().sum(0)"),
    Mutation("SM: no 1/d", "objectives/exact.py", "(dimension(x) * self.step**2)", "(self.step**2)"),
    Mutation("annealing: σ instead of σ²", "objectives/annealed.py", "sigma.square() * losses", "sigma * losses"),
    Mutation("annealed DSM: sign of the target", "objectives/annealed.py", "*cond) + z", "*cond) - z"),
    Mutation("flow matching: sign of the velocity", "objectives/flow.py", "share * noise, noise - x", "share * noise, x - noise"),
    Mutation("flow matching: noise at time zero", "objectives/flow.py", "(1 - share) * x + share * noise", "share * x + (1 - share) * noise"),
    Mutation("flow matching: no 1/d", "objectives/flow.py", "return dot(residual, residual) / dimension(x)", "return dot(residual, residual)"),
    Mutation("mean flow: sign of the derivative", "objectives/flow.py", "return v - per_example(t - r, z)", "return v + per_example(t - r, z)"),
    Mutation("mean flow: no length of the interval", "objectives/flow.py", "per_example(t - r, z) * slope", "slope"),
    Mutation("mean flow: no derivative in time", "objectives/flow.py", "(None, 1.0, *[None]", "(None, 0.0, *[None]"),
    Mutation("mean flow: derivative in the earlier time", "objectives/flow.py", "(None, 1.0, *[None]", "(1.0, None, *[None]"),
    Mutation("mean flow: gradient of the weight", "objectives/flow.py", "(square.detach() + self.c)", "(square + self.c)"),
    Mutation("mean flow: gradient of the target", "objectives/flow.py", "    @torch.no_grad()\n    def target", "    def target"),
    Mutation("mean flow: no 1/d", "objectives/flow.py", "** self.p / dimension(x)", "** self.p"),
    Mutation("mean flow: share of equal times", "objectives/flow.py", "device=x.device) < self.unequal", "device=x.device) > self.unequal"),
    Mutation("dual DSM: sign of the target in the level", "objectives/dual.py", "slopes[:, -1] - (dot(z, z) - d)", "slopes[:, -1] + (dot(z, z) - d)"),
    Mutation("dual DSM: target without its mean", "objectives/dual.py", "(dot(z, z) - d)", "dot(z, z)"),
    Mutation("dual DSM: no ½", "objectives/dual.py", "self.weight / 2 *", "self.weight *"),
    Mutation("dual DSM: slopes without σ", "objectives/dual.py", "sigma[:, None] * score_of", "score_of"),
    Mutation("Fokker-Planck: sign of the Laplacian", "objectives/fokker_planck.py", "slope - sigma.square() * growth", "slope + sigma.square() * growth"),
    Mutation("Fokker-Planck: σ instead of σ²", "objectives/fokker_planck.py", "sigma.square() * growth", "sigma * growth"),
    Mutation("Fokker-Planck: square of a random estimate", "objectives/fokker_planck.py", "if self.directions is not None:", "if False:"),
    Mutation("Fokker-Planck of a score: no norm", "objectives/fokker_planck.py", "return spread + dot(value, value)", "return spread"),
    Mutation("gaps: weights without the proposal", "objectives/missing.py", "(values.view(-1, count) - log_proposal)", "(values.view(-1, count) - 0 * log_proposal)"),
    Mutation("gaps: square of one estimate", "objectives/missing.py", "return dot(first, second) / d", "return dot(first, first) / d"),
    Mutation("gaps: σ instead of σ²", "objectives/missing.py", "/ self.sigma**2", "/ self.sigma"),
    Mutation("MLE: sign", "objectives/likelihood.py", "return -checked", "return checked"),
    Mutation("NCE: sign of a contrast", "objectives/contrastive.py", "softplus(plus - center)", "softplus(center - plus)"),
    Mutation("stencil: no k!", "derivatives/stencil.py", "math.factorial(k) * c", "c", "tests/derivatives/test_stencil.py"),
    Mutation("stencil: sign of a node", "derivatives/stencil.py", "(a - b) / (here - other)", "(a + b) / (here - other)", "tests/derivatives/test_stencil.py"),
    Mutation("finite differences: f(x) counted once for all directions", "derivatives/finite_difference.py", "(directions * second[middle],", "(second[middle],", "tests/derivatives/test_finite_difference.py"),
    Mutation("finite differences: slopes of other directions", "derivatives/finite_difference.py", "w * (i == k) for w in slope for k in which", "w * (i >= k) for w in slope for k in which", "tests/derivatives/test_finite_difference.py"),
    Mutation("Taylor: no k!", "derivatives/taylor/engine.py", "math.factorial(k) * c if k > 1", "c if k > 1", f"{TAYLOR}/test_engine.py"),
    Mutation("Taylor: no factor 2 in the curvature", "derivatives/taylor/engine.py", "return slopes, 2 * curvature", "return slopes, curvature", f"{TAYLOR}/test_engine.py"),
    Mutation("Taylor: gradient without the third derivative", "derivatives/taylor/composition.py", "w[-1].addcmul_(third[0], squares, value=0.5)", "w[-1].addcmul_(third[0], squares, value=0.0)", f"{TAYLOR}/test_engine.py {RULES}/test_elementwise.py"),
    Mutation("Taylor: Riccati equation without its mixed terms", "derivatives/taylor/recurrence.py", "y[: min(k, order + 1 - k)], value=2 * c)", "y[: min(k, order + 1 - k)], value=c)", f"{RULES}/test_elementwise.py"),
    Mutation("Taylor: sign of the sine", "derivatives/taylor/rules/elementwise.py", "oscillator(torch.sin, torch.cos, -1)", "oscillator(torch.sin, torch.cos, 1)", f"{RULES}/test_elementwise.py"),
    Mutation("Taylor of order four: mixed term of degree three", "derivatives/taylor/fourth_order.py", "y3.addcmul_(m, g2, value=2)", "y3.addcmul_(m, g2)", f"{TAYLOR}/test_fourth_order.py"),
    Mutation("Autodiff: sign of the mean in a norm", "derivatives/normalization.py", "x - x.mean(dims", "x + x.mean(dims", "tests/derivatives/test_autodiff.py"),
    Mutation("step size: orders exchanged", "derivatives/step_size.py", "(order * noise[onset] / (accuracy * truncation))", "(accuracy * noise[onset] / (order * truncation)) * 64", "tests/derivatives/test_step_size.py"),
    Mutation("Laplacian: no step", "operators/second_order.py", "        return sums / step**2", "        return sums / step", "tests/operators"),
    Mutation("stochastic diagonal: no dimension", "operators/second_order.py", "return estimate * (dimension(x) /", "return estimate * (1 /", "tests/operators"),
    Mutation("flow: σ instead of σ²", "evaluation/probability_flow.py", "return -per_example(sigma.square(), x) * score", "return -per_example(sigma, x) * score", "tests/evaluation/test_probability_flow.py"),
    Mutation("flow: sign of the Laplacian", "evaluation/probability_flow.py", "return -sigma.square() * trace", "return sigma.square() * trace", "tests/evaluation/test_probability_flow.py"),
    Mutation("divergence: no ½", "operators/second_order.py", "return doubled / 2", "return doubled", "tests/operators"),
    Mutation("flow: sign of the change of samples", "evaluation/probability_flow.py", "log_prob(noise).double() - change", "log_prob(noise).double() + change", "tests/evaluation/test_probability_flow.py"),
    Mutation("flow: no dimension of random directions", "evaluation/probability_flow.py", "(dimension(x) / DIRECTIONS", "(1 / DIRECTIONS", "tests/evaluation/test_probability_flow.py"),
    Mutation("flow: error without its correction", "evaluation/probability_flow.py", "math.sqrt((1 + SKEWNESS / (n - 3)) / n)", "math.sqrt(1 / n)", "tests/evaluation/test_probability_flow.py"),
    Mutation("Dormand-Prince: weight of a stage", "evaluation/dormand_prince.py", "49 / 176", "49 / 170", "tests/evaluation/test_probability_flow.py"),
    Mutation("Dormand-Prince: weight of the error", "evaluation/dormand_prince.py", "22 / 525", "22 / 520", "tests/evaluation/test_probability_flow.py"),
    Mutation("biharmonic: fourth moment of the sphere", "operators/biharmonic.py", "(d * (d + 2) / 3)", "(d * d / 3)", "tests/operators"),
    Mutation("directional derivative: length to the first power", "operators/directional.py", "term * scale**k for k", "term * scale for k", "tests/operators"),
    Mutation("jvp: directions of the conditions left out", "operators/directional.py", "return torch.full_like(x, v)", "return torch.full_like(x, 0 * v)", "tests/operators"),
    Mutation("partials: no step", "operators/partials.py", "y / step**k", "y / step", "tests/operators"),
    Mutation("partials: no multinomial coefficient", "operators/partials.py", "math.factorial(order) / math.prod(map(math.factorial, beta))", "1.0", "tests/operators"),
    Mutation("Autodiff: slopes of several outputs along another direction", "derivatives/autodiff.py", "gradient(product, w, create_graph, weights=v)", "gradient(product, w, create_graph, weights=-v)", "tests/operators"),
    Mutation("Taylor along separate directions: no k!", "derivatives/taylor/engine.py", "math.factorial(k) * y[truncation.block(k)]", "y[truncation.block(k)]", f"{TAYLOR}/test_separate_directions.py"),
    Mutation("Taylor along separate directions: gradient of the value", "derivatives/taylor/separate_directions.py", "result[0].addcmul_(left, right)", "result[0].addcmul_(left, right, value=2)", f"{TAYLOR}/test_separate_directions.py"),
    Mutation("sphere: norm of the last dimension only", "projections.py", "length(v, keepdim=True)", "length(v, 1, keepdim=True)", "tests/test_projections.py"),
    Mutation("Rademacher: no 1/√d", "projections.py", "self.radius / math.sqrt(dimension(x))", "self.radius", "tests/test_projections.py"),
    Mutation("Langevin: sign of the score", "samplers/langevin.py", "x + a * s + math", "x - a * s + math", "tests/samplers/test_langevin.py"),
    Mutation("HMC: no ½ in the kinetic energy", "samplers/hmc.py", "(dot(p, p) - dot(p_end, p_end)) / 2", "(dot(p, p) - dot(p_end, p_end))", "tests/samplers/test_hmc.py"),
    Mutation("AIS: no prior", "samplers/ais.py", "* (target(x) - prior(x))", "* target(x)", "tests/samplers/test_ais.py"),
    Mutation("acceptance ratio: sign", "samplers/bidirectional.py", "(c - reverse).sigmoid()", "(reverse - c).sigmoid()", "tests/samplers/test_bidirectional.py"),
    Mutation("exact SM of a density: no ½", "evaluation/score_matching.py", "slopes.double().square().sum(0) / 2", "slopes.double().square().sum(0)", "tests/evaluation/test_score_matching.py"),
    Mutation("AUC: ties count as failures", "evaluation/ood.py", "(below + not_above)", "(below + below)", "tests/evaluation/test_ood.py"),
    Mutation("calibration: no 1 in the p-value", "tables/outliers/calibration.py", "count = torch.ones_like(new[0])", "count = torch.zeros_like(new[0])", OUTLIERS),
    Mutation("calibration: ties are less unusual", "tables/outliers/calibration.py", "torch.searchsorted(fold, own.contiguous())", "torch.searchsorted(fold, own.contiguous(), right=True)", OUTLIERS),
    Mutation("calibration: rows of the own fold", "tables/outliers/calibration.py", "(~own if self.num_folds > 1 else own)", "own", OUTLIERS),
    Mutation("false discoveries: no 1/n", "tables/outliers/false_discovery.py", "* rate / max(n, 1)", "* rate", OUTLIERS),
)  # fmt: skip
