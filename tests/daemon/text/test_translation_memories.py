"""TMX translation memories are streamed, and harmful content is refused."""

from pathlib import Path

import pytest
from tests.daemon.conftest import Run
from tests.daemon.text.memories import HEAD, TAIL, unit

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.text.translation_memories import read_tmx


def read(document: str, languages: tuple[str, str] | None = None, size: int = 7) -> list[tuple[int, bytes, bytes]]:
    data = document.encode()
    blocks = (data[k : k + size] for k in range(0, len(data), size))
    return [
        row
        for chunk in read_tmx(blocks, "memory.tmx", languages)
        for row in [*zip(chunk.line_numbers, chunk.sources, chunk.targets, strict=True), *chunk.rejected]
    ]


def test_translation_units_become_pairs() -> None:
    text = HEAD + unit(("fr-FR", "la  <bpt i='1'>&lt;b&gt;</bpt>maison<ept i='1'>x</ept>\n"), ("en", "the &amp; house"))
    text += unit(("en", "cat"), ("de", "Katze"), ("FR", "<hi>chat</hi>")) + TAIL
    for size in (1, 7, 10_000):
        found = read(text, ("fr", "en"), size)
        assert found == [(1, b"la maison", b"the & house"), (2, b"chat", b"cat")]


@pytest.mark.parametrize(
    ("segment", "text"),
    [
        # Codes kept as they are in running text become placeholders; other codes are formatting.
        ("<ph>{0}</ph> mails", "{0} mails"),
        ("a <ph x='1'>%d</ph><ph x='2'> %(name)s </ph>", "a %d%(name)s"),
        ("<ph type='image'>&lt;img src='x'/&gt;</ph>a<ph>\\f1 </ph>b<ph>{0} {1}</ph>", "ab"),
        (f"a <ph>{'{0}' * 1000}</ph><ph/>", "a"),
        # Codes that do not represent text are dropped with their content.
        ("<bpt i='1'>{0}</bpt>a<ept i='1'>%s</ept><it pos='begin'>{1}</it><ut>{2}</ut>", "a"),
        ("a<bpt i='1'>&lt;a title='<sub>b</sub>'<ph>{0}</ph>></bpt>", "a"),
        # Words on two lines are two words.
        ("a<ph type='lb'/>b<ph>&lt;br/&gt;</ph>c<ph type='fnote'>d<sub>e</sub></ph>f", "a b cf"),
        # A subflow is not part of the sentence, at any position.
        ("a<sub>b</sub> c", "a c"),
        ("a <ph>%s<sub>b <it>c</it>{0}</sub></ph> d", "a %s d"),
        ("<hi>a <ph>{0}<sub>%d</sub></ph></hi><sub>b<ph>%s</ph></sub>", "a {0}"),
    ],
)
@pytest.mark.parametrize("size", [1, 10_000])
def test_inline_codes_become_placeholders_or_are_dropped(segment: str, text: str, size: int) -> None:
    assert read(HEAD + unit(("fr", segment), ("en", "b")) + TAIL, size=size) == [(1, text.encode(), b"b")]


def test_each_text_of_a_language_makes_a_pair() -> None:
    text = HEAD + unit(("fr", "deux"), ("en", "two"), ("en", "both"), ("en-GB", "two"))
    text += unit(("fr-CA", "a"), ("fr", "b"), ("en", "c"), ("de", "d"), ("en-US", "e")) + TAIL
    assert read(text, ("fr", "en")) == [
        (1, b"deux", b"two"),
        (1, b"deux", b"both"),
        (2, b"a", b"c"),
        (2, b"a", b"e"),
        (2, b"b", b"c"),
        (2, b"b", b"e"),
    ]


def test_a_text_belongs_to_the_more_specific_of_two_languages() -> None:
    text = HEAD + unit(("pt-BR", "ônibus"), ("pt-PT", "autocarro")) + TAIL
    assert read(text, ("pt", "pt-BR")) == [(1, b"autocarro", "ônibus".encode())]


def test_a_unit_with_too_many_pairs_is_rejected() -> None:
    many = [("fr", f"a{k}") for k in range(11)] + [("en", f"b{k}") for k in range(10)]
    [rejected] = read(HEAD + unit(*many) + TAIL, ("fr", "en"))
    message = "the unit has 11 texts in fr and 10 in en, which form more than 100 pairs: split it"
    assert rejected[:3] == (1, "line-too-long", message)


def test_the_first_unit_determines_the_languages() -> None:
    text = HEAD + unit(("fr-FR", "la"), ("en", "the")) + unit(("en", "a"), ("fr-FR", "un")) + TAIL
    assert read(text) == [(1, b"la", b"the"), (2, b"un", b"a")]
    with pytest.raises(InputError, match="choose two with --languages"):
        read(HEAD + unit(("fr", "la"), ("en", "the"), ("de", "die")) + TAIL)


def test_a_unit_without_text_in_a_language_is_rejected() -> None:
    _, rejected = read(HEAD + unit(("fr", "la"), ("en", "the")) + unit(("fr", "la"), ("de", "die")) + TAIL)
    assert rejected[:3] == (2, "missing-field", "the unit has no text in en")


@pytest.mark.parametrize(
    "declaration",
    ['<!ENTITY a "b">', '<!ENTITY % a SYSTEM "http://127.0.0.1/x">', '<!ENTITY a SYSTEM "file:///etc/passwd">'],
)
def test_entity_declarations_are_refused(declaration: str) -> None:
    with pytest.raises(InputError, match=r"memory\.tmx: entity declarations are not allowed"):
        read(f"<!DOCTYPE tmx [{declaration}]><tmx><body>{unit(('fr', 'la'), ('en', 'the'))}{TAIL}")


@pytest.mark.parametrize("document", ["<tmx><body>", "no XML", "<tmx><body></tmx>"])
def test_invalid_xml_is_reported(document: str) -> None:
    with pytest.raises(InputError, match="invalid XML"):
        read(document)


@pytest.mark.parametrize(
    ("elements", "message"),
    [
        ("".join(f"<e{k}/>" for k in range(2_001)), "more than 2,000 distinct names"),
        (f"<{'e' * 1_001}/>", "the name of an element or attribute has more than 1,000 characters"),
        ("<e>" * 257 + "</e>" * 257, "more than 256 levels deep: check that the file is TMX"),
    ],
)
def test_xml_beyond_a_limit_is_refused(elements: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(HEAD + elements + TAIL)


def test_xml_that_is_not_tmx_is_refused() -> None:
    with pytest.raises(InputError, match="got <html>"):
        read("<html><body/></html>")


def test_translation_memories_are_ingested_and_tokenized(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "m.tmx").write_text(HEAD + unit(("fr", "L'eau, c'est bon."), ("en", "Water &amp; wine.")) + TAIL)
    assert "1 pair stored" in hierogram("ingest", "m.tmx", "--languages", "fr,en").out
    (tmp_path / "raw").write_text("L'eau, ||| Water, don't\na, b ||| c, d ||| 0-0\n")
    assert "2 pairs stored" in hierogram("ingest", "raw", "--format", "pipes").out
    assert hierogram("ingest", "m.tmx", "--languages", "fr").code == 2
    from hierogram.storage.store import open_store

    with open_store(f"sqlite:///{tmp_path}/hierogram.db") as store:
        assert [(row.source, row.target) for row in store.pairs()] == [
            ("L' eau , c' est bon .", "Water & wine ."),
            ("L' eau ,", "Water , don 't"),
            ("a, b", "c, d"),
        ]
