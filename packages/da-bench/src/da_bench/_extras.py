"""Optional packages, with the line that installs them."""

import importlib
from types import ModuleType


def need(module: str, package: str, extra: str) -> ModuleType:
    """Imports `module`, or says how to install it.

    Raises:
        ImportError: it is not installed; names the pip line.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError(f'{package} must be installed for this: pip install "da-bench[{extra}]"') from None
