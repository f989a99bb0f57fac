"""The folder where JAX keeps compiled programs from one process to the next."""

import os
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache


def use_compilation_cache(folder: str | os.PathLike[str]) -> None:
    """Has JAX keep every program that this process compiles in `folder`, small ones included, and look there first.

    Raises:
        ValueError: the folder is not there and cannot be made.
    """
    try:
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, TypeError) as error:
        raise ValueError(f"cache_dir must be a folder. Received: cache_dir={folder!r} ({error})") from error
    if jax.config.jax_compilation_cache_dir == str(path):
        return
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # What was compiled before this may have settled that there is no cache.
    compilation_cache.reset_cache()
