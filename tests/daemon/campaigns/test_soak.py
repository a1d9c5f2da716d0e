"""The daemon runs for hours with flat memory, descriptors and log, and a bounded lag, and its store stays sound."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.daemon.campaigns.soak import Database, Samples, growth, outside_disturbances, run_soak

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(36_000)]

MAX_LAG_SECONDS = 10.0
MAX_GROWTH = 0.1
"""Maximum growth of memory over the last three quarters."""
MAX_DESCRIPTORS = 64
"""Maximum number of descriptors. SQLite keeps the descriptors of closed connections for reuse."""


def soak(database: Database, folder: Path) -> Samples:
    """Run a soak, and check its memory, descriptors and lag.

    It takes 480 or HIEROGRAM_TEST_MINUTES minutes, and writes samples to the folder HIEROGRAM_TEST_CURVES.
    """
    curves = Path(os.environ.get("HIEROGRAM_TEST_CURVES", folder))
    curves.mkdir(parents=True, exist_ok=True)
    seconds = 60 * float(os.environ.get("HIEROGRAM_TEST_MINUTES", "480"))
    samples = run_soak(database, folder, seconds, curves / f"soak-{database.name}.csv")
    assert growth(samples, "memory") <= MAX_GROWTH
    assert samples["descriptors"].max() <= MAX_DESCRIPTORS
    assert np.nanquantile(samples["lag"][samples["outage"] == 0], 0.95) <= MAX_LAG_SECONDS
    return samples


def test_soak_on_sqlite_stays_within_limits(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    # Limit the page caches, which grow with the store: 1 MB for the writer, and 4 MB for readers.
    url = f"sqlite:///{file}?cache_mb=1"
    database = Database("SQLite", url, (tmp_path, "store.db-wal"), (tmp_path, "store.db"))
    assert outside_disturbances(soak(database, tmp_path))["wal"].max() <= 100


def test_soak_on_postgres_stays_within_limits(own_server: Any, tmp_path: Path) -> None:
    data = Path(own_server.pgdata)
    database = Database("Postgres", own_server.get_uri(), (data, "pg_wal/*"), (data, "base/*/*"), own_server)
    assert outside_disturbances(soak(database, tmp_path))["wal"].max() <= 1100
