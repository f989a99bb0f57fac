"""The same task in other libraries: each peer a script of its own, run in turn with ours."""

from ._measure import PEERS as PEERS
from ._measure import Peer as Peer
from ._measure import measure_peers as measure_peers
from ._tasks import TASKS as TASKS
from ._tasks import Task as Task
