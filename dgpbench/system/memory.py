"""How much memory there is."""

from pathlib import Path

CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
CGROUP_USED = Path("/sys/fs/cgroup/memory.current")


def available() -> int:
    """Bytes that this process may still take: the machine's, or what is left of its container's."""
    import psutil

    free = int(psutil.virtual_memory().available)
    try:
        return min(free, int(CGROUP_LIMIT.read_text()) - int(CGROUP_USED.read_text()))
    except (OSError, ValueError):  # no container, or "max"
        return free
