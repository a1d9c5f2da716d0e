"""Fixture of a learned store."""

from collections.abc import Iterator

import pytest
from tests.conftest import CopyStore
from tests.daemon.learning.stores import make_trained

from hierogram.storage.store import Store, open_store


@pytest.fixture
def filled(store_url: str, copy_store: CopyStore) -> Iterator[Store]:
    """A learned store whose aligner has counted the given alignments. Parametrized by database."""
    copy_store("trained", store_url, make_trained)
    with open_store(store_url) as store:
        yield store
