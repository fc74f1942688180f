"""Free memory."""

from pathlib import Path

CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
CGROUP_USED = Path("/sys/fs/cgroup/memory.current")


def available() -> int:
    """Return the free bytes of the machine, or of its container."""
    import psutil

    free = int(psutil.virtual_memory().available)
    try:
        return min(free, int(CGROUP_LIMIT.read_text()) - int(CGROUP_USED.read_text()))
    except (OSError, ValueError):  # not in a container, or "max"
        return free
