"""State and descendants of processes, and the worker processes of a driver."""

import subprocess
from typing import Any

import psutil


def descendants(process: subprocess.Popen[Any]) -> list[psutil.Process]:
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


def worker_processes(process: subprocess.Popen[Any]) -> list[psutil.Process]:
    """Return the Ray workers among the descendants of a process."""
    try:
        return [child for child in descendants(process) if "".join(child.cmdline()[:1]).startswith("ray::Worker")]
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


def all_ended(processes: set[psutil.Process]) -> bool:
    return not any(map(is_running, processes))


def is_running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
