"""Drawn trainings: random small networks, optimisers and settings, to compare the two executors on."""

from ._draw import Training as Training
from ._draw import draw as draw
from ._exhaustive import exhaustive as exhaustive
from ._parts import LOSSES as LOSSES
from ._parts import MIDDLE as MIDDLE
from ._parts import OPTIMIZERS as OPTIMIZERS
from ._parts import SCHEDULES as SCHEDULES
