"""A container image compiles every kernel that the daemon runs."""

import json
import subprocess
import sys

import pytest
from tests.daemon.conftest import LINES

KERNELS = """
import json, sys
from numba.core.dispatcher import Dispatcher

def kernels():
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("hierogram.")]
    found = {kernel for module in modules for kernel in vars(module).values() if isinstance(kernel, Dispatcher)}
    return [f"{one.py_func.__module__}.{one.py_func.__name__} {kind}" for one in found for kind in one.signatures]
"""
WARMING = """
from hierogram.daemon.serving.warm_up import warm_up_daemon
warm_up_daemon()
print(json.dumps(kernels()))
"""
SERVING = """
import tempfile, threading, time
from pathlib import Path
from hierogram.daemon.configuration import configuration_type
from hierogram.daemon.learning.lease import holding_lease
from hierogram.daemon.library.store import open
from hierogram.daemon.serving.logs import open_log
from hierogram.daemon.serving.service import Daemon, prepare_kernels

lines = sys.stdin.read()
folder = tempfile.mkdtemp()
asked = {
    "spool": {"folder": f"{folder}/spool", "poll_seconds": 0.1}, "scores": {"share": 1.0},
    "sampling": {"commit_seconds": 0.5},
}
with open(f"{folder}/s.db", create=True) as store:
    configuration = configuration_type().model_validate(asked)
    log = open_log(configuration.log)
    prepare_kernels(store.settings(), log, http=True)
    daemon = Daemon(store, configuration, log)
    daemon.supervisor.prepare(configuration)
    with holding_lease(store.store, "test"):
        daemon.supervisor.start()
        Path(folder, "spool", ".linked.pipes").write_text(lines)
        plain = (line.split(" ||| ")[:2] for line in lines.splitlines())
        Path(folder, "spool", ".plain.tsv").write_text("".join(f"{one} .\\t{other} .\\n" for one, other in plain))
        for name in ("linked.pipes", "plain.tsv"):
            Path(folder, "spool", f".{name}").rename(Path(folder, "spool", name))
        pairs = 2 * len(lines.splitlines())
        while store.query("SELECT count(*) FROM pair_scores").rows != [(pairs,)]:
            daemon.supervisor.check()
            time.sleep(0.2)
        store.export(f"{folder}/grammar.moses.gz")
        daemon.stop()
print(json.dumps(kernels()))
"""


def run(script: str, lines: str = "") -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", KERNELS + script], input=lines, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_daemon_compiles_nothing_after_the_image_s_warm_up() -> None:
    lines = "".join(f"{line.replace(' ||| ', f' {n} ||| ', 2)}\n" for n in range(40) for line in LINES)
    warm, used = run(WARMING), run(SERVING, lines)
    assert used <= warm, sorted(used - warm)
    assert len(used) > 50
