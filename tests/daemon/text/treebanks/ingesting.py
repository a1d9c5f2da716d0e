"""Helper that ingests the trees of a file into a store."""

from hierogram.daemon.text.ingest import IngestReport
from hierogram.daemon.text.treebanks.ingest import ingest_open
from hierogram.daemon.text.treebanks.reading import TreebankFile, open_treebank
from hierogram.daemon.text.treebanks.transformations import Transformations
from hierogram.storage.store import Store


def ingest_trees(store: Store, treebank: TreebankFile, how: Transformations | None = None) -> IngestReport:
    with open_treebank(treebank) as opened:
        return ingest_open(store, opened, how)
