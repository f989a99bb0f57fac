"""Verify: both executors side by side, and the place where they part."""

from ._report import Divergence as Divergence
from ._report import Referee as Referee
from ._report import Report as Report
from ._report import ValueComparison as ValueComparison
from ._verify import verify as verify
