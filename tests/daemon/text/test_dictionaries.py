"""Dictionaries are read in every format, and count for aligner and grammar until they are withdrawn."""

import json
import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from tests.daemon.conftest import QUICK, Run
from tests.daemon.learning.alignment.languages import invented_corpus
from tests.storage.building import NewPair, make_pairs

from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.daemon.learning.alignment.incremental import align_pending
from hierogram.daemon.learning.alignment.text_aligner import TextAligner
from hierogram.daemon.learning.learner import withdraw_all
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.verifying import verify
from hierogram.daemon.shared_options import DictionaryOptions
from hierogram.daemon.text.dictionaries import Dictionary
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.reading import IngestOptions, weigh_entries
from hierogram.storage.store import Store, open_store

DOCUMENT = (Path(__file__).parents[3] / "docs" / "alignment.md").read_text()

MARTIF = """<?xml version="1.0"?>
<!DOCTYPE martif SYSTEM "TBXcoreStructV02.dtd">
<martif type="TBX" xml:lang="en"><text><body>
<termEntry id="a"><langSet xml:lang="en"><ntig><termGrp><term>white <hi>house</hi></term></termGrp></ntig></langSet>
<langSet xml:lang="fr-FR"><tig><term>maison
 blanche</term></tig><tig><term>Maison-Blanche</term></tig></langSet></termEntry>
<termEntry id="b"><langSet xml:lang="en"><tig><term>door</term></tig></langSet></termEntry>
</body></text></martif>"""

TBX = """<tbx xmlns="urn:iso:std:iso:30042:ed-2" type="TBX-Basic" xml:lang="en"><text><body>
<conceptEntry id="1"><langSec xml:lang="fr"><termSec><term>chat</term></termSec></langSec>
<langSec xml:lang="en"><termSec><term>cat &amp; kitten</term></termSec><note>no term</note></langSec></conceptEntry>
</body></text></tbx>"""


def entries(path: Path, content: str, languages: tuple[str, str] | None) -> tuple[list[tuple[str, str]], list[str]]:
    path.write_text(content)
    pairs, reasons = [], []
    with Dictionary(str(path)) as source:
        for fields in source.line_chunks(languages):
            pairs += [(s.decode(), t.decode()) for s, t in zip(fields.sources, fields.targets, strict=True)]
            reasons += [one.reason for one in fields.rejected]
    return pairs, reasons


def test_dialects_of_tbx_are_read(tmp_path: Path) -> None:
    assert entries(tmp_path / "a.tbx", MARTIF, ("fr", "en")) == (
        [("maison blanche", "white house"), ("Maison-Blanche", "white house")],
        ["missing-field"],
    )
    assert entries(tmp_path / "b.tbx", TBX, None) == ([("chat", "cat & kitten")], [])


def concept(italian: str) -> str:
    return (
        '<martif type="TBX-Basic"><text><body><termEntry>'
        '<langSet xml:lang="en"><tig><term>cancel</term></tig></langSet>'
        f'<langSet xml:lang="it">{italian}</langSet></termEntry></body></text></martif>'
    )


def tig(term: str, category: str) -> str:
    return f"<tig><term>{term}</term>{category}</tig>"


PREFERRED = tig("annullare", '<termNote type="administrativeStatus">preferredTerm-admn-sts</termNote>')


@pytest.mark.parametrize(
    "category",
    [
        '<termNote type="administrativeStatus">deprecatedTerm-admn-sts</termNote>',
        '<termNote type="administrativeStatus">supersededTerm-admn-sts</termNote>',
        '<termNote type="administrativeStatus">forbidden</termNote>',
        '<termNote type="normativeAuthorization">deprecatedTerm</termNote>',
        '<termNote type="temporalQualifier">obsoleteTerm</termNote>',
        '<termNote type="temporalQualifier">outdatedTerm</termNote>',
        '<termNote type="usage"> Not recommended </termNote>',
        '<termNote type="forbidden">true</termNote>',
        '<descrip type="deprecated">Yes</descrip>',
        '<descrip type="Status">Forbidden</descrip>',
        '<termNote type="partOfSpeech">verb</termNote><admin type="status">obsolete</admin>',
        '<administrativeStatus xmlns="http://www.tbxinfo.net/ns/basic">supersededTerm-admn-sts</administrativeStatus>',
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_terms_marked_as_not_to_be_used_are_rejected(tmp_path: Path, category: str, first: bool) -> None:
    terms = [tig("cancellare", category), PREFERRED]
    content = concept("".join(terms if first else terms[::-1]))
    assert entries(tmp_path / "a.tbx", content, ("en", "it")) == ([("cancel", "annullare")], ["deprecated-term"])
    nested = content.replace("<tig>", "<ntig><termGrp>").replace("</tig>", "</termGrp></ntig>")
    assert entries(tmp_path / "b.tbx", nested, ("en", "it")) == ([("cancel", "annullare")], ["deprecated-term"])


@pytest.mark.parametrize(
    "category",
    [
        '<termNote type="administrativeStatus">preferredTerm-admn-sts</termNote>',
        '<termNote type="administrativeStatus">admittedTerm-admn-sts</termNote>',
        '<termNote type="forbidden">false</termNote>',
        "<note>deprecated</note>",
        '<descrip type="definition">obsolete</descrip>',
        '<termNote type="usageNote">not deprecated any more</termNote>',
    ],
)
def test_terms_that_are_not_marked_as_deprecated_are_accepted(tmp_path: Path, category: str) -> None:
    assert entries(tmp_path / "a.tbx", concept(tig("cancellare", category)), ("en", "it")) == (
        [("cancel", "cancellare")],
        [],
    )


def test_a_status_applies_to_all_terms_of_its_level(tmp_path: Path) -> None:
    status = '<admin type="status">obsolete</admin>'
    both = tig("annullare", "") + tig("cancellare", "")
    of_language = concept(status + both)
    assert entries(tmp_path / "a.tbx", of_language, ("en", "it")) == ([], ["deprecated-term"] * 2)
    of_concept = concept(both).replace("<termEntry>", f"<termEntry>{status}")
    assert entries(tmp_path / "b.tbx", of_concept, ("en", "it")) == ([], ["deprecated-term"] * 3)


def test_rejection_message_contains_the_term_and_its_status(hierogram: Run, tmp_path: Path) -> None:
    status = '<termNote type="administrativeStatus">deprecatedTerm-admn-sts</termNote>'
    (tmp_path / "a.tbx").write_text(concept(tig("cancellare", status) + tig("disdire", status) + PREFERRED))
    done = hierogram("ingest", "--dictionary", "a.tbx", "--languages", "en,it")
    assert "1 pair stored, 0 duplicates in the corpus dictionary, 2 lines rejected" in done.out
    assert "a.tbx:1: deprecated-term: the term 'cancellare' is marked as deprecatedTerm-admn-sts" in done.err
    assert "a.tbx:1: deprecated-term: the term 'disdire' is marked as deprecatedTerm-admn-sts" in done.err


def test_entries_that_a_column_marks_as_not_to_be_used_are_rejected(tmp_path: Path) -> None:
    two, sound = ("en", "it"), [("open", "aprire"), ("file", "archivio")]
    for name, content in (
        ("a.csv", "source,target,status\nopen,aprire,\nshut,chiudere,deprecated\nfile,archivio,preferred\n"),
        ("b.csv", "Administrative Status,en,it\n,open,aprire\nForbidden,shut,chiudere\napproved,file,archivio\n"),
        ("c.tsv", "en\tit\tnote\tusage\nopen\taprire\tobsolete\t\nshut\tchiudere\t\tdo not use\nfile\tarchivio\n"),
        ("d.csv", "en,it,en_status,it_status\nopen,aprire,,\nshut,chiudere,ok,superseded\nfile,archivio,x,y\n"),
    ):
        assert entries(tmp_path / name, content, two) == (sound, ["deprecated-term"])


def test_dictionary_columns_are_found_by_their_names(tmp_path: Path) -> None:
    two = ("fr", "en")
    for name, content in (
        ("a.csv", 'en,note,fr\n"the ""cat""",x,le chat\n'),
        ("b.csv", 'note,target,source\n,"the ""cat""",le  chat\n\n'),
        ("c.tsv", 'Source\tTarget\tNote\nle chat\tthe "cat"\trest\n'),
        ("d.csv", '\ufefffr-CA,en_US\nle chat,"the ""cat"""\n'),
    ):
        assert entries(tmp_path / name, content, two) == ([("le chat", 'the "cat"')], [])
    assert entries(tmp_path / "d.csv", "source,target\na,b\nalone\nc,d\n", None) == (
        [("a", "b"), ("c", "d")],
        ["field-count"],
    )


@pytest.mark.parametrize(
    ("name", "content", "error", "reason"),
    [
        ("a.tbx", "<tmx/>", InputError, "not TBX"),
        ("a.tbx", "<tbx><text>", InputError, "invalid XML"),
        ("a.tbx", '<!DOCTYPE tbx [<!ENTITY a "b">]><tbx/>', InputError, "entity declarations are not allowed"),
        (
            "a.tbx",
            MARTIF.replace("fr-FR", "en"),
            InputError,
            r"expected two languages in the first concept, got 1 \(en\)",
        ),
        ("a.txt", "a,b", UsageError, "unknown suffix"),
        (
            "a.csv",
            "French,English\nchat,cat\n",
            InputError,
            "line 1: the header must name .* 'French', 'English'.*`source,target`",
        ),
        ("a.tsv", "chat\tcat\n", InputError, r"add the header `source \(tab\) target`"),
        ("a.csv", '"' + "a" * 200_000 + '",b', InputError, "line 1: cannot be read"),
    ],
)
def test_invalid_dictionaries_are_rejected_with_the_reason(
    tmp_path: Path, name: str, content: str, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        entries(tmp_path / name, content, None)


@given(
    some.lists(some.tuples(some.text("ab ", min_size=1, max_size=4), some.just("x")), max_size=6), some.integers(1, 4)
)
def test_each_distinct_entry_is_repeated_as_often_as_its_weight(rows: list[tuple[str, str]], weight: int) -> None:
    sources = [" ".join(source.split()) or "a" for source, _ in rows]
    seen: dict[str, int] = {}
    pairs = []
    for line, source in enumerate(sources):
        seen[source] = seen.get(source, -1) + 1
        pairs.append(NewPair(source, "x", None, source.count(" ") + 1, 1, line, None, seen[source]))
    found = weigh_entries(make_pairs(pairs), DictionaryOptions(weight))
    assert len(found) == weight * len(seen)
    assert sorted(zip(found.sources, found.occurrences, strict=True)) == sorted(
        (source, copy) for source in seen for copy in range(weight)
    )
    assert set(found.human_links) == {k for k in range(len(found)) if found.source_lengths[k] == 1}


PAIRS = 150


def create_learned_store(url: str) -> Store:
    """Create and learn a store of an invented language in which `alpha` and `beta` always occur together."""
    sources, targets, _ = invented_corpus(PAIRS)
    sources = [f"{source} alpha beta" if k < 4 else source for k, source in enumerate(sources)]
    targets = [f"{target} one two" if k < 4 else target for k, target in enumerate(targets)]
    store = open_store(url, create=True, settings=QUICK)
    batch = store.begin_ingest("invented", "memory", "pipes")
    rows = [
        NewPair(s, t, None, s.count(" ") + 1, t.count(" ") + 1, k)
        for k, (s, t) in enumerate(zip(sources, targets, strict=True))
    ]
    store.add_pairs(batch, make_pairs(rows))
    store.finish_ingest(batch)
    align_pending(store, threads=1)
    learn(store, sweeps=2)
    return store


@pytest.mark.slow
def test_an_entry_changes_alignments_and_grammar_until_it_is_withdrawn(store_url: str, tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("source\ttarget\nalpha\ttwo\n")

    def crossed(store: Store) -> float:
        _, [answer] = TextAligner(store).align_texts([("alpha", "one two")])
        return float(answer.posterior[0, 1])

    with create_learned_store(store_url) as store:
        before, rules = crossed(store), store.find_rules("alpha", "two", current_sample=True)
        with Dictionary(str(tmp_path / "terms.tsv")) as source:
            done = ingest(store, source, "dictionary", options=IngestOptions(dictionary=DictionaryOptions(weight=12)))
        assert done.totals.accepted == 12
        align_pending(store, threads=1)
        learn(store, sweeps=2)
        ids = store.select_pairs(corpus="dictionary")
        assert [row.alignment for row in store.pairs_by_id(ids)] == ["0-0"] * 12
        assert all(store.is_corrected(pair) for pair in ids)
        with_entry = crossed(store)
        assert with_entry > before + 0.2
        [rule] = store.find_rules("alpha", "two", current_sample=True)
        assert rule.count >= 12
        assert (verify(store).problems, verify(store).human_links) == ([], 12)
        # Ingesting the same file again adds nothing; with a larger weight it adds the difference.
        for weight, added in ((12, 0), (14, 2)):
            with Dictionary(str(tmp_path / "terms.tsv")) as source:
                done = ingest(store, source, "dictionary", options=IngestOptions(dictionary=DictionaryOptions(weight)))
            assert (done.totals.accepted, done.totals.duplicates) == (added, weight - added)
        align_pending(store, threads=1)
        learn(store, sweeps=2)
        withdraw_all(store, store.select_pairs(corpus="dictionary"), lambda _done: None)
        assert crossed(store) < with_entry - 0.2
        left = store.find_rules("alpha", "two", current_sample=True)
        assert sum(rule.count for rule in left) <= sum(rule.count for rule in rules) + 4
        assert (verify(store).problems, verify(store).human_links) == ([], 0)


@pytest.mark.slow
def test_documented_dictionary_commands_run(hierogram: Run, learned_url: str, tmp_path: Path) -> None:
    (tmp_path / "terms.tbx").write_text(
        MARTIF.replace('<termEntry id="b">', "<!--").replace("door</term></tig></langSet></termEntry>", "-->")
    )
    (tmp_path / "glossary.csv").write_text("source,target\nporte verte,green door\n")
    lines = [shlex.split(line) for line in DOCUMENT.splitlines() if line.startswith("hierogram ingest --dictionary")]
    assert len(lines) == 2
    for (_, *arguments), number in zip(lines, (6, 1), strict=True):
        ran = hierogram(
            "--store", learned_url, *arguments, "--json", *(["--languages", "fr,en"] if number == 6 else [])
        )
        assert ran.code == 0, ran.err
        assert json.loads(ran.out)["accepted"] == number
    assert hierogram("--store", learned_url, "learn", "--sweeps", "2").code == 0
    with open_store(learned_url) as store:
        [block] = store.pairs_by_id(store.select_pairs(corpus="house-style"))
        assert block.alignment == "0-0 0-1 1-0 1-1"
    found = json.loads(hierogram("--store", learned_url, "evidence", "la porte verte", "--json").out)
    assert [(one["corpus"], one["target"]) for one in found["entries"]] == [("house-style", "green door")]
    assert all(pair["corpus"] == "default" for pair in found["pairs"])
    prompt = hierogram("--store", learned_url, "evidence", "la porte verte", "--format", "prompt").out
    assert "\n<corpus>\nDictionary (source = target):\nporte verte = green door\n" in prompt
    [withdraw] = [
        shlex.split(line) for line in DOCUMENT.splitlines() if re.match("hierogram withdraw --corpus h", line)
    ]
    assert hierogram("--store", learned_url, *withdraw[1:]).code == 0
    assert hierogram("--store", learned_url, "verify").code == 0


def test_invalid_dictionary_options_exit_with_2(hierogram: Run, learned_url: str) -> None:
    Path("a.csv").write_text("a,b\n")
    for arguments in (
        ["a.csv", "--weight", "3"],
        ["--dictionary", "a.csv", "b.csv"],
        ["--dictionary", "--trees", "a.csv"],
    ):
        assert hierogram("--store", learned_url, "ingest", *arguments).code == 2
