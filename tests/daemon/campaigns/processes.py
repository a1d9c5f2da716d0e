"""Worker processes started by a driver."""

import subprocess
from typing import Any

import psutil


def below(process: subprocess.Popen[Any]) -> list[psutil.Process]:
    """Return all descendants of a driver."""
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


def workers_of(process: subprocess.Popen[Any]) -> list[psutil.Process]:
    """Return the worker processes that a driver has started."""
    try:
        return [child for child in below(process) if "".join(child.cmdline()[:1]).startswith("ray::Worker")]
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


def all_ended(found: set[psutil.Process]) -> bool:
    """Check if all these processes have ended."""
    return not any(is_running(one) for one in found)


def is_running(process: psutil.Process) -> bool:
    """Check if the process is running."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
