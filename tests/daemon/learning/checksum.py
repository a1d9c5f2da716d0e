"""Checksum of the results of learning, also for use by another process."""

import zlib

from tests.daemon.learning.stores import QUICK, contents, fill, some_pairs

from hierogram.daemon.learning.learning import learn
from hierogram.storage.store import open_store


def checksum(folder: str) -> int:
    """Return a checksum of the results of learning a new store."""
    with open_store(f"sqlite:///{folder}/store.db", create=True, settings=QUICK) as store:
        fill(store, some_pairs(30))
        learn(store, sweeps=1)
        return zlib.crc32(repr(contents(store)).encode())
