# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""How much memory a process uses: on a GPU what torch has allocated, on a CPU what is resident.

On a CPU the figures are Linux's own, of a process started with the environment `EXACT_MEMORY`: it
maps every larger tensor by itself, so that what is freed is resident no longer.
"""

from pathlib import Path

import torch


EXACT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}


def start_peak() -> int:
    """Forget the peak so far; bytes in use now."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    Path("/proc/self/clear_refs").write_text("5")  # sets VmHWM back to VmRSS
    return status_bytes("VmRSS")


def peak_bytes() -> int:
    """The most bytes in use since `start_peak`."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated()
    return status_bytes("VmHWM")


def status_bytes(field: str, process: int | str = "self") -> int:
    """An entry of `/proc/PROCESS/status`, such as `VmHWM`, in bytes."""
    path = Path(f"/proc/{process}/status")
    for line in path.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return 1024 * int(line.split()[1])
    raise ValueError(f"{path} has no {field}; this measurement needs Linux or a GPU.")
