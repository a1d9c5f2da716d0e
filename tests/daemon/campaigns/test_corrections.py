"""Corrections that a running daemon receives or withdraws take effect everywhere within seconds."""

import json
import time
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import pytest
from tests.daemon.campaigns.daemon import TIMEOUT, Daemon, assert_consistent, wait_until
from tests.daemon.conftest import QUICK
from tests.daemon.learning.alignment.languages import invented_corpus
from tests.storage.building import NewPair, make_pairs, query

from hierogram.daemon.exports.exporting import export
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.learning.alignment.incremental import align_pending
from hierogram.storage.store import open_store

SECONDS = 10.0
PAIRS = 40
FIXED = (0, 1)


def prepare(url: str) -> tuple[str, str]:
    """Create a store of aligned pairs, and return the texts of the pair to correct, which is unique."""
    sources, targets, _ = invented_corpus(PAIRS)
    sources.append("rare words here")
    targets.append("words odd rare")
    with open_store(url, create=True, settings=QUICK) as store:
        batch = store.begin_ingest("invented", "memory", "pipes")
        pairs = zip(sources, targets, strict=True)
        store.add_pairs(
            batch,
            make_pairs([NewPair(s, t, None, len(s.split()), len(t.split()), k) for k, (s, t) in enumerate(pairs, 1)]),
        )
        store.finish_ingest(batch)
        align_pending(store, threads=1)
    return sources[-1], targets[-1]


class CorrectedLink:
    """The corrected link as seen by SQL, the aligner and an export."""

    def __init__(self, daemon: Daemon, texts: tuple[str, str], folder: Path) -> None:
        self.daemon = daemon
        self.texts = texts
        self.folder = folder

    def in_sql(self) -> bool:
        [(alignment,)] = query(self.daemon.url, f"SELECT alignment FROM sentence_pairs WHERE id = {PAIRS + 1}")
        return "0-1" in alignment.split()

    def in_answers(self) -> bool:
        body = {"pairs": [{"source": self.texts[0], "target": self.texts[1]}]}
        answer = httpx2.post(self.daemon.address("/v1/align"), json=body, timeout=TIMEOUT)
        return "0-1" in answer.json()["pairs"][0]["alignment"].split()

    def in_an_export(self) -> bool:
        """Export the rules, and return whether one of them links the two words."""
        path = self.folder / "grammar.jsonl"
        with open_store(self.daemon.url) as store:
            export(store, path, ExportOptions(format="jsonl", max_scope=None))
        for rule in map(json.loads, path.read_text().splitlines()):
            source, target = rule["source"].split(), rule["target"].split()
            for i, _, j in (link.partition("-") for link in rule["alignment"].split()):
                if (source[int(i)], target[int(j)]) == ("rare", "odd"):
                    return True
        return False

    def everywhere(self) -> bool:
        return self.in_sql() and self.in_answers()

    def nowhere(self) -> bool:
        return not self.in_sql() and not self.in_answers()


def send_correction(daemon: Daemon, method: str, body: Any = None) -> None:
    """Send a correction or withdraw it, retrying until the daemon answers. Fails if it is refused."""
    answer = daemon.request(method, f"/v1/pairs/{PAIRS + 1}/links", json=body)
    assert answer.status_code in (200, 202, 204), answer.text


CORRECTION = {"fixed": [list(FIXED)], "forbidden": [[0, 0], [0, 2]]}


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_a_correction_takes_effect_within_seconds(store_url: str, tmp_path: Path) -> None:
    texts = prepare(store_url)
    daemon = Daemon(store_url, tmp_path)
    link = CorrectedLink(daemon, texts, tmp_path)
    with daemon.running():
        wait_until(daemon.settled, "all pairs are settled")
        # The first request loads kernels.
        assert not link.in_answers()
        for method, body, is_linked in (("PUT", CORRECTION, True), ("DELETE", None, False)):
            started = time.monotonic()
            send_correction(daemon, method, body)
            wait_until(link.everywhere if is_linked else link.nowhere, "the correction is applied", SECONDS)
            assert link.in_an_export() == is_linked
            assert time.monotonic() - started < SECONDS
        daemon.end()
    assert_consistent(store_url)


@pytest.mark.campaign
@pytest.mark.timeout(3_600)
def test_corrections_survive_kills_of_the_daemon(store_url: str, tmp_path: Path) -> None:
    texts = prepare(store_url)
    daemon = Daemon(store_url, tmp_path)
    link = CorrectedLink(daemon, texts, tmp_path)
    random = Random(22)
    corrected = False
    for _ in range(20):
        with daemon.running():
            corrected = not corrected
            send_correction(daemon, "PUT" if corrected else "DELETE", CORRECTION if corrected else None)
            time.sleep(random.uniform(0.0, 1.0))
            daemon.kill()
        assert_consistent(store_url)
    with daemon.running():
        wait_until(link.everywhere if corrected else link.nowhere, "the last correction applies")
        send_correction(daemon, "PUT", CORRECTION)
        wait_until(link.everywhere, "the correction is applied")
        daemon.end()
    assert_consistent(store_url)
