from . import data as data
from . import derivatives as derivatives
from . import estimator as estimator
from . import evaluation as evaluation
from . import models as models
from . import noise as noise
from . import objectives as objectives
from . import operators as operators
from . import outliers as outliers
from . import projections as projections
from . import recipes as recipes
from . import runs as runs
from . import samplers as samplers
from . import training as training
from .derivatives import Autodiff as Autodiff
from .derivatives import FiniteDifference as FiniteDifference
from .derivatives import Taylor as Taylor
from .estimator import ScoreMatchingDensity as ScoreMatchingDensity
from .noise import Arithmetic as Arithmetic
from .noise import ConstantNoise as ConstantNoise
from .noise import Geometric as Geometric
from .objectives import *  # one name per objective: see its `__all__`
from .operators import biharmonic as biharmonic
from .operators import directional_derivative as directional_derivative
from .operators import divergence as divergence
from .operators import hessian_diagonal as hessian_diagonal
from .operators import laplacian as laplacian
from .projections import Gaussian as Gaussian
from .projections import Rademacher as Rademacher
from .projections import Sphere as Sphere

__version__: str
