"""Object optimisers, learning-rate schedules, clipping and weight decay for JAX."""

from .__about__ import __version__ as __version__
from ._adagrad import AdaGrad as AdaGrad
from ._adam import Adam as Adam
from ._clipping import clip_by_global_norm as clip_by_global_norm
from ._clipping import global_norm as global_norm
from ._constant_lr import ConstantLR as ConstantLR
from ._cosine_lr import CosineLR as CosineLR
from ._cosine_warm_restarts import CosineWarmRestarts as CosineWarmRestarts
from ._decay import decoupled_decay as decoupled_decay
from ._decay import l2_decay as l2_decay
from ._exponential_lr import ExponentialLR as ExponentialLR
from ._from_optax import from_optax as from_optax
from ._joined_lr import JoinedLR as JoinedLR
from ._linear_warmup import LinearWarmup as LinearWarmup
from ._noam_schedule import NoamSchedule as NoamSchedule
from ._one_cycle import OneCycleLR as OneCycleLR
from ._optimizer import Optimizer as Optimizer
from ._optimizer import check_optimizer as check_optimizer
from ._piecewise_lr import PiecewiseLR as PiecewiseLR
from ._polynomial_lr import PolynomialLR as PolynomialLR
from ._reduce_on_plateau import ReduceOnPlateau as ReduceOnPlateau
from ._rmsprop import RMSProp as RMSProp
from ._schedule import Schedule as Schedule
from ._sgd import SGD as SGD
from ._step_lr import StepLR as StepLR
