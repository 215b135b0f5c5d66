"""The rules, one file for each section of torch's documentation. Importing registers them."""

from . import (
    activation as activation,
)
from . import (
    arithmetic as arithmetic,
)
from . import (
    attention as attention,
)
from . import (
    autograd as autograd,
)
from . import (
    bessel as bessel,
)
from . import (
    casting as casting,
)
from . import (
    complex_numbers as complex_numbers,
)
from . import (
    convolution as convolution,
)
from . import (
    decomposition as decomposition,
)
from . import (
    dropout as dropout,
)
from . import (
    elementwise as elementwise,
)
from . import (
    fft as fft,
)
from . import (
    indexing as indexing,
)
from . import (
    joining as joining,
)
from . import (
    linalg as linalg,
)
from . import (
    loss as loss,
)
from . import (
    matmul as matmul,
)
from . import (
    nondifferentiable as nondifferentiable,
)
from . import (
    norm as norm,
)
from . import (
    normalization as normalization,
)
from . import (
    piecewise as piecewise,
)
from . import (
    pooling as pooling,
)
from . import (
    quantile as quantile,
)
from . import (
    recurrent as recurrent,
)
from . import (
    reduction as reduction,
)
from . import (
    scatter_reduce as scatter_reduce,
)
from . import (
    shape as shape,
)
from . import (
    softmax as softmax,
)
from . import (
    special as special,
)
from . import (
    vision as vision,
)
