"""What machine and versions a figure comes from."""

import os
import platform
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import jax


def machine() -> dict[str, Any]:
    """Versions, processor, cores, device and date, as they go into every JSON file.

    Example:
        >>> from da_bench import machine
        >>> sorted(machine())
        ['cores', 'date', 'device', 'jax', 'jaxlib', 'platform', 'processor', 'python']
    """
    device = jax.devices()[0]
    return {
        "jax": metadata.version("jax"),
        "jaxlib": metadata.version("jaxlib"),
        "python": platform.python_version(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "platform": device.platform,
        "device": device.device_kind,
        "date": datetime.now(UTC).date().isoformat(),
    }


def file_name(stem: str) -> str:
    """`stem` with the platform behind it: `compiled_step_cpu.json`, on a GPU `compiled_step_gpu.json`."""
    return f"{stem}_{jax.devices()[0].platform}.json"


def check_file_name(path: Path) -> None:
    """Keeps the figures of one platform out of another's file.

    Raises:
        ValueError: the name ends in the platform of another machine, such as `_gpu.json` on a CPU.
    """
    here = jax.devices()[0].platform
    named = path.stem.rpartition("_")[2]
    if named in ("cpu", "gpu", "tpu") and named != here:
        raise ValueError(f"A file for {named} figures must be written on a {named}; this is a {here}. Received: {path}")


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
