"""Compile all kernels that a daemon uses: `python -m hierogram.daemon.serving.warm_up`.

Run this when an image or installation is built, so that the first start takes seconds. Cached kernels are valid only
for the same type of processor, so build on the type that will run the daemon.
"""

import threading
from tempfile import TemporaryDirectory

from hierogram.daemon.configuration import Configuration
from hierogram.daemon.extensions import extensions
from hierogram.daemon.learning.learner import Learner, LearnOptions
from hierogram.daemon.library.store import open as open_grammar
from hierogram.daemon.serving.logs import open_log
from hierogram.daemon.serving.sampling import SamplingTurns
from hierogram.daemon.serving.service import prepare_kernels
from hierogram.daemon.serving.supervision import HealthRegistry, Heartbeat

# Add enough pairs for tables to grow, because growing uses other kernels.
_LINKED = [(f"la maison {n} est blanche", f"the house {n} is white", "0-0 1-1 2-2 3-3 4-4") for n in range(500)]
_UNLINKED = [("la porte", "the door"), ("la porte blanche", "the white door")]


def warm_up_daemon() -> None:
    """Run pairs through all operations of a daemon, in a temporary store."""
    configuration = Configuration()
    with TemporaryDirectory(prefix="hierogram-") as folder, open_grammar(f"{folder}/s.db", create=True) as opened:
        log = open_log(configuration.log)
        opened.add([*_LINKED, *_UNLINKED])
        prepare_kernels(opened.settings(), log, http=True)
        with Learner(opened.store, LearnOptions()) as learner:
            section, stop = configuration.sampling, threading.Event()
            turns = SamplingTurns(learner, section, stop, Heartbeat(), HealthRegistry(), log)
            turns.run_turn()
            while any(opened.status().unsettled.values()):
                turns.run_turn()
            # Take another turn, which samples settled pairs because no new pairs wait.
            turns.run_turn()
        for extension in extensions():
            extension.warm_up_loops(opened.store)
        opened.export(f"{folder}/grammar.cdec.gz")


if __name__ == "__main__":
    warm_up_daemon()
