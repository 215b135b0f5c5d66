"""The error of finite differences
===============================

A second difference has an error that grows with the step, and one that grows as the step shrinks.
In low precision no step is good. This page measures both errors on a function whose derivatives
are known, and shows that Taylor mode, which has no step, is accurate in each precision.
"""

# %%
# A function and the truth
# ------------------------
# A log-density with heavy tails, :math:`f = -\log(1 + ‖x‖²)`. With :math:`q = 1 + ‖x‖²`, its
# second derivative along a unit vector is :math:`4 (v^T x)² / q² - 2 / q`.

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

import fdsm
from fdsm import SSM, FiniteDifference, Sphere, Taylor
from fdsm.derivatives import rounding_error, step_size

torch.manual_seed(0)
x = torch.randn(256, 8, dtype=torch.float64)
v = nn.functional.normalize(torch.randn_like(x), dim=1)


def f(x: Tensor) -> Tensor:
    """Return the log-density, shape `(B, D) -> (B,)`."""
    return -(1 + x.square().sum(1)).log()


q = 1 + x.square().sum(1)
truth = 4 * (v * x).sum(1).square() / q.square() - 2 / q


def error(second: Tensor) -> float:
    """Return the error of second derivatives, relative to their size."""
    return ((second.double() - truth).norm() / truth.norm()).item()


# %%
# The error over the step
# -----------------------
# The engine refuses data in bfloat16, and warns if rounding dominates. ``checks=False`` turns this
# off, so that the error can be seen.

steps = torch.logspace(-7, 0.5, 61, dtype=torch.float64).tolist()
engine = FiniteDifference(checks=False)
dtypes = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}

fig, ax = plt.subplots(figsize=(5.5, 4.2), layout="constrained")
for color, (name, dtype) in enumerate(dtypes.items()):
    low, along = x.to(dtype), v.to(dtype)
    errors = [error(engine.jet(f, low, h * along, 2)[2].double() / h**2) for h in steps]
    exact = error(Taylor().jet(f, low, along, 2)[2])
    ax.loglog(steps, errors, f"C{color}", label=name)
    ax.axhline(exact, color=f"C{color}", ls="--")
    print(f"{name:8}  finite differences at best {min(errors):.0e}, Taylor mode {exact:.0e}")
ax.plot([], [], "k--", label="Taylor mode")
ax.set(xlabel="step", ylabel="relative error of the second derivative", ylim=(1e-17, 1e6))
ax.legend(loc="lower left")
plt.show()

# %%
# The best step
# -------------
# ``step_size`` measures it from values of the function, without the truth. ``rounding_error``
# estimates the rounding error of a step, also without the truth.

for name in ("float64", "float32"):
    low, along = x.to(dtypes[name]), v.to(dtypes[name])
    h = step_size(f, low, along, order=2)
    found = error(engine.jet(f, low, h * along, 2)[2].double() / h**2)
    estimate = rounding_error(f, low, 1e-3 * along)
    actual = error(engine.jet(f, low, 1e-3 * along, 2)[2].double() / 1e-6)
    print(f"{name}  step_size {h:.1e}, error there {found:.0e}")
    print(f"         at step 1e-3: estimated rounding {estimate:.0e}, error {actual:.0e}")

# %%
# What it means for training
# --------------------------
# An untrained network is almost linear, so its second difference in float32 may be noise.
# ``check`` compares the gradient of a loss in the parameters with that of exact derivatives.

model = nn.Sequential(nn.Linear(8, 128), nn.SiLU(), nn.Linear(128, 1), nn.Flatten(0))
for h in (1e-1, 1e-2, 1e-3):
    result = fdsm.check(SSM(FiniteDifference(), Sphere(h)), model, x.float())
    print(f"FD-SSM at step {h:5}: gradient wrong by {result.consistency.angle:4.1f} degrees")
exact = fdsm.check(SSM(Taylor()), model, x.float())
print(f"Taylor mode:           gradient wrong by {exact.consistency.angle:4.1f} degrees")
print(f"recommended step of finite differences: {exact.recommended_step:.2f}")
print(f"what FD-SSM warns of at step {h}: {result.problems[0].message.partition('.')[0]}")
