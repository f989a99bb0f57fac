"""One model, two ways to run it, one answer."""

from .__about__ import __version__ as __version__
from ._bits import BitsComparison as BitsComparison
from ._bits import bits_equal as bits_equal
from ._callbacks import Callback as Callback
from ._exact_jit import exact_jit as exact_jit
from ._trainer import Trainer as Trainer
from .verify import Report as Report
