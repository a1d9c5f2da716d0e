"""Telling systemd how the daemon is, by the protocol of sd_notify(3); nothing happens where it does not listen."""

import os
import socket
import time

READY = "READY=1"
STOPPING = "STOPPING=1"
WATCHDOG = "WATCHDOG=1"


def notify(*lines: str) -> bool:
    """Sends `NAME=value` lines to systemd; returns whether they were sent."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return False
    # An address that begins with @ is abstract, which the kernel writes with a zero byte.
    path = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.connect(path)
            sender.sendall("\n".join(lines).encode())
    except OSError:
        # A daemon does not end because nobody listens.
        return False
    return True


def reloading() -> bool:
    """Tells that the configuration is being read again; `READY` has to follow."""
    return notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")


def watchdog_seconds() -> float | None:
    """How often systemd wants a sign of life, halved to be safe; None where it wants none."""
    microseconds, process = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID")
    if not microseconds.isdigit() or (process and process != str(os.getpid())):
        return None
    return int(microseconds) / 2e6
