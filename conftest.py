"""What the tests of more than one package look for: tracers that were left behind, and memory."""

import gc
import os
import types
from pathlib import Path

import jax
import pytest


@pytest.fixture(scope="session")
def tracers():
    """All tracers that can be reached from an object."""

    def find(root):
        pending, seen, found = [root], {}, []
        while pending:
            part = pending.pop()
            if id(part) in seen or isinstance(part, (type, types.ModuleType)):
                continue
            seen[id(part)] = part
            if isinstance(part, jax.core.Tracer):
                found.append(part)
            elif isinstance(part, types.FunctionType):
                pending += [cell.cell_contents for cell in part.__closure__ or ()]
            elif type(part).__module__.partition(".")[0] not in ("jax", "jaxlib"):
                pending += gc.get_referents(part)
        return found

    return find


@pytest.fixture(scope="session")
def memory():
    """Resident memory in MB."""

    def measure():
        pages = Path("/proc/self/statm")
        return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20 if pages.exists() else 0.0

    return measure
