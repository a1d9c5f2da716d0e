"""Pairs are exported as TMX, and a corpus is synchronized with a TMX file."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.daemon.conftest import Run
from translate.storage.tmx import tmxfile

import hierogram as hg
from hierogram.daemon.learning.lease import holding_lease
from hierogram.storage.browsing.details import iterate_pairs
from hierogram.storage.store import open_store

FIRST = {"1": ("La maison est grande.", "The house is big."), "2": ("La porte & <le> mur", "The door & <the> wall")}


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[hg.GrammarStore]:
    with hg.open(tmp_path / "s.db", create=True, languages=("fr", "en"), tokenize=True, seed=7) as store:
        yield store


def memory(path: Path, units: dict[str, tuple[str, str]]) -> Path:
    made = tmxfile(sourcelanguage="fr", targetlanguage="en")
    for name, (source, target) in units.items():
        made.addtranslation(source, "fr", target, "en")
        made.units[-1].xmlelement.set("tuid", name)
    made.savefile(str(path))
    return path


def export_tmx(store: hg.GrammarStore, corpus: str | None = None, since: datetime | None = None) -> str:
    return "".join(hg.memory(store, corpus, since))


def stored(store: hg.GrammarStore) -> dict[str | None, tuple[int, str]]:
    with store.reader.read() as transaction:
        return {pair.external_id: (pair.id, pair.target) for pair in iterate_pairs(transaction, "memory")}


def test_a_translation_memory_survives_a_round_trip(opened: hg.GrammarStore, tmp_path: Path) -> None:
    assert opened.synchronize(memory(tmp_path / "m.tmx", FIRST), "memory")[1:] == (0, 0)
    out = tmp_path / "out.tmx"
    out.write_text(export_tmx(opened))
    found = tmxfile.parsefile(str(out))
    assert [(unit.source, unit.target) for unit in found.units] == list(FIRST.values())
    assert [unit.getid() for unit in found.units] == list(FIRST)
    again = opened.synchronize(out, "memory")
    assert (again.added.totals.accepted, again.kept, again.withdrawn) == (0, 2, 0)


def test_new_changed_or_removed_units_are_synchronized(opened: hg.GrammarStore, tmp_path: Path) -> None:
    opened.synchronize(memory(tmp_path / "m.tmx", FIRST), "memory")
    opened.add([("le chat", "the cat")], corpus="other")
    before = stored(opened)
    later = {"2": FIRST["2"], "3": ("Le chat", "The cat")}
    done = opened.synchronize(memory(tmp_path / "m.tmx", later), "memory")
    assert (done.added.totals.accepted, done.kept, done.withdrawn) == (1, 1, 1)
    assert stored(opened).keys() == {"2", "3"}
    assert stored(opened)["2"] == before["2"]
    changed = later | {"3": ("Le chat", "A cat")}
    done = opened.synchronize(memory(tmp_path / "m.tmx", changed), "memory")
    assert (done.added.totals.accepted, done.kept, done.withdrawn) == (1, 1, 1)
    assert stored(opened)["3"][1] == "A cat"
    assert sum(opened.status().pairs.values()) == 3


def test_new_units_are_not_added_while_another_process_keeps_the_old_ones(
    opened: hg.GrammarStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened.synchronize(memory(tmp_path / "m.tmx", FIRST), "memory")
    before = stored(opened)
    monkeypatch.setattr("hierogram.daemon.library.store._WITHDRAWAL_TIMEOUT", 0.2)
    changed = memory(tmp_path / "m.tmx", {"1": FIRST["1"], "2": ("La porte", "The door"), "3": ("Le chat", "The cat")})
    with (
        open_store(opened.store.engine.url.render_as_string(hide_password=False)) as other,
        holding_lease(other, "hierogram serve"),
        pytest.raises(hg.DaemonError, match=r"`hierogram serve` .* did not remove all 1 obsolete pairs within 0\.2 s"),
    ):
        opened.synchronize(changed, "memory")
    assert stored(opened) == before
    done = opened.synchronize(changed, "memory")
    assert (done.added.totals.accepted, done.added.totals.rejected, done.kept, done.withdrawn) == (2, 0, 1, 1)


def test_a_translation_memory_without_units_changes_nothing(opened: hg.GrammarStore, tmp_path: Path) -> None:
    opened.synchronize(memory(tmp_path / "m.tmx", FIRST), "memory")
    with pytest.raises(hg.InputError, match="no unit has text in both fr and en; nothing was changed"):
        opened.synchronize(memory(tmp_path / "m.tmx", {}), "memory")
    assert stored(opened).keys() == FIRST.keys()


UNITS = """\
<tmx version="1.4"><header srclang="fr"/><body>
<tu tuid="6"><tuv xml:lang="fr"><seg>Bonjour</seg></tuv><tuv xml:lang="en"><seg>Good morning</seg></tuv></tu>
<tu tuid="6"><tuv xml:lang="fr"><seg>Salut</seg></tuv><tuv xml:lang="en"><seg>Hello</seg></tuv></tu>
<tu tuid="6"><tuv xml:lang="fr"><seg>Bonjour</seg></tuv><tuv xml:lang="en"><seg>Good morning</seg></tuv></tu>
<tu tuid="7"><tuv xml:lang="fr"><seg>Seul</seg></tuv></tu>
<tu tuid="8"><tuv xml:lang="fr"><seg>Le mur</seg></tuv><tuv xml:lang="en"><seg> </seg></tuv></tu>
<tu><tuv xml:lang="fr"><seg>Le chat</seg></tuv><tuv xml:lang="en"><seg>The cat</seg></tuv></tu>
</body></tmx>
"""


def test_invalid_units_are_rejected_every_time(opened: hg.GrammarStore, tmp_path: Path) -> None:
    (tmp_path / "m.tmx").write_text(UNITS)
    for accepted, kept in ((2, 0), (0, 2)):
        done = opened.synchronize(tmp_path / "m.tmx", "memory")
        assert (done.added.totals.accepted, done.kept, done.withdrawn) == (accepted, kept, 0)
        assert done.added.totals.rejected == 3
    assert {name: target for name, (_, target) in stored(opened).items()} == {"6": "Good morning", None: "The cat"}
    found = opened.query("SELECT DISTINCT line, reason FROM rejected_lines ORDER BY line")
    assert [tuple(row) for row in found.rows] == [(2, "external-id-conflict"), (4, "missing-field"), (5, "empty-side")]


def test_all_texts_of_a_unit_are_synchronized_unless_it_has_an_identifier(
    opened: hg.GrammarStore, tmp_path: Path
) -> None:
    two = '<tuv xml:lang="fr"><seg>Deux</seg></tuv><tuv xml:lang="en"><seg>Two</seg></tuv>'
    both = '<tuv xml:lang="en"><seg>Both</seg></tuv>'
    for body, counts in (
        (f"<tu>{two}</tu>", (1, 0, 0, 0)),
        (f"<tu>{two}{both}</tu>", (1, 1, 0, 0)),
        (f"<tu>{two}{both}</tu>", (0, 2, 0, 0)),
        # The pairs of a unit share its identifier, so only the first is stored.
        (f'<tu tuid="1">{two}{both}</tu>', (1, 0, 2, 1)),
        (f'<tu tuid="1">{two}{both}</tu>', (0, 1, 0, 1)),
    ):
        (tmp_path / "m.tmx").write_text(f"<tmx><header/><body>{body}</body></tmx>")
        done = opened.synchronize(tmp_path / "m.tmx", "memory")
        totals = done.added.totals
        assert (totals.accepted, done.kept, done.withdrawn, totals.rejected) == counts
    found = opened.query("SELECT DISTINCT reason FROM rejected_lines")
    assert [tuple(row) for row in found.rows] == [("external-id-conflict",)]


def test_exported_pairs_are_selected_by_corpus_and_date(opened: hg.GrammarStore) -> None:
    opened.add([("le chat", "the cat")], corpus="other")
    opened.add([("le chien", "the dog")], corpus="memory")
    assert "the cat" not in export_tmx(opened, "memory")
    assert "the dog" in export_tmx(opened, "memory")
    now = datetime.now(UTC)
    assert "<tu " in export_tmx(opened, since=now - timedelta(hours=1))
    assert "<tu " not in export_tmx(opened, since=now + timedelta(hours=1))


def test_a_store_without_languages_exports_private_language_codes(tmp_path: Path) -> None:
    with hg.open(tmp_path / "s.db", create=True) as store:
        store.add([("le chat", "the cat")], corpus="memory")
        out = tmp_path / "out.tmx"
        out.write_text(export_tmx(store))
        assert 'xml:lang="x-target"><seg>the cat</seg>' in out.read_text()
        assert store.synchronize(out, "memory").kept == 1


@pytest.mark.parametrize("odd", ["\x01", "\x0b", "\x1f", "\x7f", "\ufffe", "\uffff", "\ufdd0", "\U0001ffff"])
def test_an_export_with_any_characters_is_well_formed(tmp_path: Path, odd: str) -> None:
    with hg.open(tmp_path / "s.db", create=True) as store:
        given = {"source": f"le d{odd}fl <{odd}>", "target": f'the {odd} "cat"', "id": f'a"{odd}&'}
        assert store.add([given, ("un chien", "a dog")], corpus=f"news {odd}").totals.accepted == 2
        out = tmp_path / "out.tmx"
        out.write_text(export_tmx(store))
        found = tmxfile.parsefile(str(out)).units
        kept = odd if odd in "\x7f\ufdd0\U0001ffff" else ""
        assert found[0].getid() == f'a"{kept}&'
        assert found[0].source == f"le d{kept}fl <{kept}>"
        assert (found[1].source, found[1].target) == ("un chien", "a dog")


def test_the_ingest_command_synchronizes_a_corpus(hierogram: Run, opened: hg.GrammarStore, tmp_path: Path) -> None:
    path = memory(tmp_path / "m.tmx", FIRST)
    for done in ("0 unchanged, 0 withdrawn", "2 unchanged, 0 withdrawn"):
        found = hierogram("--store", opened.url, "ingest", str(path), "--corpus", "memory", "--format", "memory")
        assert (found.code, done in found.err) == (0, True)
    assert hierogram("--store", opened.url, "ingest", str(path), "--format", "memory", "--dictionary").code == 2
