"""Frequency of Python's cyclic garbage collection, and memory returned to the system."""

import subprocess
import sys

_COMMAND = """
import gc, sys
from hierogram.daemon.cli import main
main.app = lambda: print(gc.isenabled(), gc.get_threshold()[0] > 10_000)
main.main()
"""


def test_the_command_line_collects_garbage_rarely_but_regularly() -> None:
    done = subprocess.run([sys.executable, "-c", _COMMAND], check=True, capture_output=True, text=True)
    assert done.stdout == "True True\n"


_KEPT = """
import threading
from hierogram.daemon.memory import trim_malloc, resident_bytes, limit_malloc_arenas
limit_malloc_arenas()
kept = []
def work():
    made = [bytes(4_000) for _ in range(20_000)]
    # Memory kept between freed blocks prevents the heap from shrinking by itself.
    kept.append(made[::200])
threads = [threading.Thread(target=work) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
before = resident_bytes()
trim_malloc()
print(before - resident_bytes() > 30_000_000)
"""


def test_unused_memory_is_returned_to_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", _KEPT], check=True, capture_output=True, text=True)
    assert done.stdout == "True\n"


_CYCLE = """
import weakref
from hierogram.daemon.memory import relax_gc, trim_malloc
class Node: pass
relax_gc()
node = Node()
node.itself = node
freed = weakref.ref(node)
del node
print(freed() is None)
trim_malloc()
print(freed() is None)
"""


def test_reference_cycles_are_freed_when_memory_is_returned() -> None:
    done = subprocess.run([sys.executable, "-c", _CYCLE], check=True, capture_output=True, text=True)
    assert done.stdout == "False\nTrue\n"
