"""The measurement of posted pairs: it serves a copy of a store, posts pairs, and waits for translations."""

import re
from pathlib import Path

import pytest
from tests.daemon.conftest import create_learned_store, write_corpus
from tests.tools.lab.programs import run_lab

from hierogram.storage.store import open_store
from hierogram.tools.lab.measures import new_pairs


@pytest.mark.slow
def test_the_command_prints_times_to_translation_and_leaves_the_store_unchanged(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    create_learned_store(url, write_corpus(tmp_path))
    with open_store(url) as store:
        before = store.position()
    output = run_lab("measures.new_pairs", tmp_path / "store.db", "--pairs", "2", "--pause", "0")
    assert re.fullmatch(
        r"pair 1: translated after [\d.]+ s\npair 2: translated after [\d.]+ s\nmedian [\d.]+ s, maximum [\d.]+ s\n",
        output,
    )
    with open_store(url) as store:
        assert store.position() == before


def test_waiting_for_a_translation_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    paths: list[str] = []

    def post(_url: str, path: str, _body: object) -> dict[str, object]:
        paths.append(path)
        return {"sentences": [{"translation": "the house"}]}

    monkeypatch.setattr(new_pairs, "post", post)
    monkeypatch.setattr(new_pairs, "_TIMEOUT_SECONDS", 0.3)
    with pytest.raises(TimeoutError, match="zut was not translated"):
        new_pairs.seconds_to_translation("http://nowhere", ("la", "the"), ("zut", "darn"))
    assert paths[0] == "/v1/pairs"
    assert paths.count("/v1/translate") > 1
