"""A function named on the command line."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def load_function(name: str) -> Callable[..., Any]:
    """The function that "module:function" names; a module is looked for in the working folder first.

    Raises:
        ValueError: the name has another form, or there is no such module or function.

    Example:
        >>> from da_bench._load_function import load_function
        >>> load_function("math:sqrt")(4)
        2.0
    """
    module, colon, function = name.partition(":")
    if not module or not colon or not function:
        raise ValueError(f"FUNCTION must be module:function. Received: {name!r}")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = importlib.import_module(module.removesuffix(".py").replace("/", "."))
    except ModuleNotFoundError as error:
        raise ValueError(f"FUNCTION must be in a module that Python finds. Received: {name!r} ({error})") from error
    if not callable(getattr(found, function, None)):
        raise ValueError(f"FUNCTION must name a function of {module}. Received: {name!r}")
    return getattr(found, function)
