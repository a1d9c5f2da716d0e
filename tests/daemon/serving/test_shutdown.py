"""The process ends in time, even if its threads block."""

import subprocess
import sys
import time

import pytest

_SCRIPT = """
import logging, re, threading
from hierogram.daemon.serving.signals import exit_after

def hang(kind):
    if kind == "sleeps":
        threading.Event().wait()
    elif kind == "keeps Python's lock":
        re.match("(a+)+b", "a" * 60)

logging.basicConfig(format="%(message)s")
kind = {kind!r}
exit_after(1.0, 3)
if kind != "nothing":
    threading.Thread(target=hang, args=(kind,)).start()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "code", "message"),
    [
        ("nothing", 0, ""),
        ("sleeps", 3, "shutdown took more than 1 s: exiting now\n"),
        ("keeps Python's lock", 1, "Timeout (0:00:04)!\n"),
    ],
)
def test_process_exits_in_time_even_if_a_thread_blocks(kind: str, code: int, message: str) -> None:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT.format(kind=kind)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr[: len(message)]) == (code, message)
    assert time.monotonic() - began < 40
