"""A recipe of one's own: `fdsm train examples/own_recipe.py:mine` trains it.

The density of a spiral, learnt by FD-SSM with a step that goes down as it is learnt.
"""

from dataclasses import replace

from fdsm.data import SyntheticData, spiral
from fdsm.paper.tables.toy_densities import CPU
from fdsm.training import Exponential

mine = replace(
    CPU[0], name="mine", data=SyntheticData(spiral(), n=20_000), step_size=Exponential(0.2)
)
