"""State of processes, by id."""

from pathlib import Path


def is_running(process: int) -> bool:
    """Check if a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
