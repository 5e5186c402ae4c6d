"""The meter: CPU time and memory of a tree of processes, read from /proc."""

from __future__ import annotations

import os
import platform
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> list[int]:
    """The process and all its living descendants."""
    found = [pid]
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += tree(int(child))
    except OSError:
        pass  # it ended while we looked
    return found


def cpu_seconds(pids: list[int]) -> float:
    """User and system time of these trees, with the children that have already ended."""
    total = 0
    for root in pids:
        for pid in set(tree(root)):
            fields = stat(pid)
            total += sum(int(fields[i]) for i in (11, 12)) if fields else 0
            if pid == root and fields:
                total += int(fields[13]) + int(fields[14])  # reaped children
    return total / TICKS


def stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return []


def memory_mb(pids: list[int], field: str = "VmRSS") -> float:
    """Resident memory of these trees; `VmHWM` for the highest it ever was."""
    kilobytes = 0
    for root in pids:
        for pid in set(tree(root)):
            try:
                lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            except OSError:
                continue
            kilobytes += sum(int(li.split()[1]) for li in lines if li.startswith(field + ":"))
    return kilobytes / 1024


def machine() -> dict[str, object]:
    """What the report says about where it was measured."""
    model = "unknown"
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "cpus": os.cpu_count(),
        "cpu": model,
        "memory_gb": round(pages * size / 2**30),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
    }
