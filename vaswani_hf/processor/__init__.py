# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What a process takes of its machine: threads that pay, how they wait, and memory that it keeps.

torch takes a thread for each core. Where products are small, threads wait for each other longer
than they multiply: a small model on a large machine would be slower by them.
"""

import ctypes
import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path


OMP_NUM_THREADS = "OMP_NUM_THREADS"  # the variable by which users and launchers choose
# Multiplications of a layer's product for each thread: with less, another thread costs more than it
# brings (docs/speed.md, "Threads").
LEAST_FOR_A_THREAD = 2**21
SPINS = "GOMP_SPINCOUNT"  # how often a thread of GNU's OpenMP looks before it sleeps
FOR_TORCH = {
    SPINS: "3000",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64",
    "LRU_CACHE_CAPACITY": "64",  # the same in ideep, torch's layer above oneDNN
}
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # parameters of glibc's mallopt(3)
_CPUS = Path("/sys/devices/system/cpu")
_CGROUPS, _OWN_CGROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def paying_threads(rows: int, d_model: int, cores: int) -> int:
    """How many threads pay for products of `(rows, d_model)` by `(d_model, d_model)`.

    Args:
        rows: tokens of a batch, or in a search the beams of all its sentences.
        d_model: of the model.
        cores: that there are.
    """
    return max(1, min(cores, rows * d_model**2 // LEAST_FOR_A_THREAD))


def prepare_for_torch(environment: MutableMapping[str, str] = os.environ) -> dict[str, str]:
    """Set what torch's libraries read when torch is imported; this must come before that.

    GNU's OpenMP, whose threads torch has, lets them spin for milliseconds while they wait. Where
    another process needs a core, the thread that all wait for does not get it, in each of the
    hundreds of operators of a step (docs/speed.md, "Threads").

    oneDNN keeps what it has prepared for 1,024 shapes of tensors, and so does torch's layer above
    it. With sentences of all lengths that is more than the model takes (docs/speed.md, "Training").

    What the user has set stays as it is.

    Returns:
        What was set.
    """
    chosen = {name: value for name, value in FOR_TORCH.items() if name not in environment}
    if "OMP_WAIT_POLICY" in environment:
        chosen.pop(SPINS, None)
    environment.update(chosen)
    return chosen


def keep_freed_memory(environment: Mapping[str, str] = os.environ) -> bool:
    """Let this process keep the memory that it frees, for the tensors of its next step.

    glibc gives large blocks back to the system, which clears each page of a new one: a sixth of the
    time of a training step at the base shape (docs/speed.md). Nothing happens elsewhere, or where
    the user has set one of glibc's own variables.

    Returns:
        Whether it does.
    """
    if any(name.startswith("MALLOC_") for name in environment):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # not glibc
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, -1) and mallopt(_M_MMAP_MAX, 0))


def threads_of_environment(environment: Mapping[str, str] = os.environ) -> int | None:
    """The number in `OMP_NUM_THREADS`, which a user has set; `None` if no user has.

    torchrun and `accelerate launch` set it to 1 where it is not set, the latter also for a single
    process: from them a 1 says nothing.
    """
    text = environment.get(OMP_NUM_THREADS, "").partition(",")[0]  # one for each level of nesting
    number = int(text) if text.strip().isdecimal() else 0
    is_launched = not {"LOCAL_RANK", "ACCELERATE_MIXED_PRECISION"}.isdisjoint(environment)
    return None if number < 1 or (number == 1 and is_launched) else number


def available_cores() -> int:
    """Cores that this process may use: by its affinity, and by the quota of its control group.

    Two hardware threads of a core are one: they share what multiplies.
    """
    if hasattr(os, "sched_getaffinity"):  # Linux
        cores = len({_siblings(cpu) for cpu in os.sched_getaffinity(0)})
    else:
        cores = os.cpu_count() or 1
    return max(1, int(min(cores, _quota())))


def _siblings(cpu: int) -> str:
    """The hardware threads that share the core of one, such as `0,32`."""
    try:
        return (_CPUS / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text()
    except OSError:
        return str(cpu)


def _quota() -> float:
    """Cores' worth of time that the control group gives, as in a container; infinity for any."""
    try:
        name = _OWN_CGROUP.read_text().partition("0::")[2].partition("\n")[0]
    except OSError:
        return float("inf")
    quota, folder = float("inf"), _CGROUPS / name.lstrip("/")
    for group in (folder, *folder.parents):  # each one above sets a limit as well
        try:
            most, period = (group / "cpu.max").read_text().split()
            quota = min(quota, int(most) / int(period))
        except (OSError, ValueError):  # none is set, or the word `max` says so
            continue
    return quota


__all__ = [
    "available_cores",
    "keep_freed_memory",
    "paying_threads",
    "prepare_for_torch",
    "threads_of_environment",
]
