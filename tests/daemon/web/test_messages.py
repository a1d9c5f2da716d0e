"""Messages to users, exit codes, progress, and the warm-up of kernels."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from structlog.testing import capture_logs
from tests.daemon.conftest import LINES, Run

from hierogram.daemon.configuration import LogSection
from hierogram.daemon.exports.exporting import export, publish
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.exports.publication import Versions
from hierogram.daemon.learning.alignment import text_aligner
from hierogram.daemon.serving import service
from hierogram.daemon.serving.logs import open_log
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store
from hierogram.tools.translation import translating

pytestmark = pytest.mark.database("sqlite")


@pytest.mark.slow
def test_export_to_an_unknown_suffix_requires_a_format(hierogram: Run, learned_url: str, tmp_path: Path) -> None:
    store = ("--store", learned_url)
    for name in ("x.foo", "x.foo.gz"):
        refused = hierogram(*store, "export", "-o", name)
        assert (refused.code, (tmp_path / name).exists()) == (2, False)
        assert "unknown suffix .foo: expected .cdec, " in refused.err
    assert hierogram(*store, "export", "-o", "x.foo", "--format", "cdec").code == 0
    assert hierogram(*store, "export", "-o", "grammar").code == 0
    (tmp_path / "x.foo.json").unlink()
    (tmp_path / "in").write_text("la\n")
    refused = hierogram("translate", "x.foo", "in")
    assert (refused.code, "one of the suffixes .cdec, " in refused.err) == (3, True)


def test_tuning_without_a_text_is_refused(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "g.cdec.gz").write_bytes(b"")
    (tmp_path / "version").mkdir()
    for grammar in ("g.cdec.gz", "version", "s.db"):
        refused = hierogram("tune", grammar, "-r", "in", "-o", "w.toml")
        assert refused.code == 2
        assert f"a file of sentences is missing: expected {grammar} FILE" in refused.err


@pytest.mark.parametrize(
    ("files", "damage"),
    [
        ({"a": b"la\nmaison\n", "b": b"the\n"}, "the files have different numbers of lines"),
        ({"a": b""}, "a: empty-input: no lines to store"),
        ({"a": b"la ||| the\n\xe9t\xe9 ||| summer\nne ||| not\n"}, "invalid UTF-8 in 1 line of 3: convert the file"),
        ({"a": b"la ||| the\nne\n"}, None),
    ],
)
def test_damaged_inputs_exit_with_an_error_and_rejected_lines_only_with_strict(
    hierogram: Run, tmp_path: Path, files: dict[str, bytes], damage: str | None
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    ran = hierogram("ingest", *files)
    assert ran.code == (0 if damage is None else 1), ran.err
    assert damage is None or damage in ran.err
    assert hierogram("ingest", *files, "--strict").code == 1


def test_a_line_of_a_megabyte_is_reported_as_too_long(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("la maison " * 120_000)
    refused = hierogram("ingest", "a")
    assert (refused.code, "line 1: exceeds 1,048,576 bytes" in refused.err) == (3, True)


def test_progress_of_an_export_is_consistent(learned: Store, tmp_path: Path) -> None:
    from hierogram.daemon.learning.learning import learn

    # Rules are deleted and added, so their ids exceed their number.
    learn(learned, sweeps=3)
    reports: dict[str, list[tuple[int, int | None]]] = defaultdict(list)
    for name in ("g.cdec", "g.s2t"):
        manifest = export(
            learned, tmp_path / name, ExportOptions(), lambda what, done, total: reports[what].append((done, total))
        )
        assert manifest.rules
    for what, steps in reports.items():
        assert all(total is None or done <= total for done, total in steps), what
        assert steps[-1][0] == steps[-1][1], what
    assert reports["count"][-1] == (len(LINES), len(LINES))


def test_kernels_for_the_settings_are_warmed_up_and_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_QUIET_SECONDS", 0.0)
    warmed: list[str] = []
    monkeypatch.setattr(service, "warm_up", lambda _: (warmed.append("sampling"), None))
    monkeypatch.setattr(service, "warm_up_aligner", lambda: warmed.append("answers"))
    monkeypatch.setattr(translating, "warm_up", lambda *_: warmed.append("translations"))
    log = open_log(LogSection())
    with capture_logs() as lines:
        service.prepare_kernels(Settings(), log, http=True)
        service.prepare_kernels(Settings(grammar="trees"), log, http=True)
        service.prepare_kernels(Settings(), log, http=False)
    assert warmed == ["sampling", "answers", "translations", "sampling", "sampling"]
    assert [line["event"] for line in lines].count("samplers ready") == 3


def test_warm_up_aligns_a_pair_with_and_without_a_fixed_link(monkeypatch: pytest.MonkeyPatch) -> None:
    align_pair, made = text_aligner._align_pair, []

    def noted_align(texts: Any, units: Any, prior: Any, known: Any) -> Any:
        made.append((known.fixed, align_pair(texts, units, prior, known)))
        return made[-1][1]

    monkeypatch.setattr(text_aligner, "_align_pair", noted_align)
    text_aligner.warm_up()
    assert [fixed for fixed, _ in made] == [frozenset(), {(0, 0)}]
    assert made[1][1].posterior[0, 0] == 1


def test_libraries_do_not_log_each_webhook() -> None:
    import logging

    open_log(LogSection(level="info"))
    assert not logging.getLogger("httpx2").isEnabledFor(logging.INFO)


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("align", {"pairs": [{"source": 3, "target": "a"}]}, "pairs.0.source: Input should be a valid string, got 3"),
        ("align", {"pairs": [{"source": "a"}]}, "pairs.0.target: Field required"),
        ("align", {"pairs": [], "min_probability": 2}, "min_probability: Input should be less than or equal to 1"),
        ("align", {"pairs": [], "symmetrization": "x"}, "symmetrization: Input should be 'posterior'"),
        ("translate", {"sentences": "la"}, 'sentences: Input should be a valid list, got "la"'),
        ("translate", {"sentences": [], "text": "a"}, "text: Extra inputs are not permitted"),
        ("translate", {"sentences": ["a"] * 101}, "sentences: List should have at most 100 items"),
        ("translate?best=0", {"sentences": []}, 'query.best: Input should be greater than or equal to 1, got "0"'),
        ("translate?best=x", {"sentences": []}, "query.best: Input should be a valid integer"),
    ],
)
def test_invalid_requests_are_explained(
    learned_client: TestClient, path: str, body: dict[str, object], message: str
) -> None:
    answer = learned_client.post(f"/v1/{path}", json=body)
    assert (answer.status_code, message in answer.json()["detail"]) == (422, True), answer.text
    assert answer.json()["faults"]


def test_export_event_contains_the_name_of_the_version(learned: Store, tmp_path: Path) -> None:
    made = publish(learned, Versions(tmp_path, "news"))
    [event] = [event for event in learned.events().events if event.kind == "export-done"]
    assert event.detail["version"] == made.folder.name
    assert (tmp_path / str(event.detail["version"]) / "manifest.json").exists()
