"""How seldom Python looks for garbage in cycles."""

import subprocess
import sys

_COMMAND = """
import gc, sys
from hierogram.daemon import main
main.app = lambda: print(gc.isenabled(), gc.get_threshold()[0] > 10_000)
main.main()
"""


def test_the_command_line_looks_seldom_but_looks() -> None:
    done = subprocess.run([sys.executable, "-c", _COMMAND], check=True, capture_output=True, text=True)
    assert done.stdout == "True True\n"
