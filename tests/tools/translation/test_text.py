"""Translation of text: case, spaces, line ends and numbers, and placeholders and tags placed by the links."""

import random
import re
from collections import Counter
from copy import copy
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.daemon.web.pages.texts import PIECES
from tests.tools.translation.small import resources, small_translator

import hierogram as hg
from hierogram.daemon.text.pipeline import TextPipeline
from hierogram.tools.translation import translating
from hierogram.tools.translation.casing import NO_CASING, Casing
from hierogram.tools.translation.documents import TagPair, place_tags
from hierogram.tools.translation.fixed_words import Glossary
from hierogram.tools.translation.text_translator import TextTranslator, as_plain
from hierogram.tools.translation.translating import Translator, in_threads

RULES = """\
[X] ||| la maison ||| the house ||| EGivenF=-0.1 FGivenE=-0.1 ||| 0-0 1-1
[X] ||| la ||| the ||| EGivenF=-0.3 FGivenE=-0.2 ||| 0-0
[X] ||| maison ||| house ||| EGivenF=-0.3 FGivenE=-0.2 ||| 0-0
[X] ||| maison ||| home ||| EGivenF=-0.6 FGivenE=-0.3 ||| 0-0
[X] ||| [X,1] blanche ||| white [X,1] ||| EGivenF=-0.05 FGivenE=-0.1 ||| 1-0
[X] ||| ne [X,1] pas ||| does not [X,1] ||| EGivenF=-0.2 FGivenE=-0.1 ||| 0-0 2-1
[X] ||| vient ||| come ||| EGivenF=-0.1 FGivenE=-0.1 ||| 0-0
[X] ||| elle ||| she ||| EGivenF=-0.1 FGivenE=-0.1 ||| 0-0
[X] ||| elle ||| She ||| EGivenF=-0.2 FGivenE=-0.1 ||| 0-0
[X] ||| à londres ||| in London ||| EGivenF=-0.2 FGivenE=-0.1 ||| 0-0 1-1
[X] ||| euh ||| ||| EGivenF=-0.1 FGivenE=-0.1
[X] ||| le 3 mai ||| on May 3 ||| EGivenF=-0.1 FGivenE=-0.1 ||| 0-0 1-2 2-1
[X] ||| en 7 jours ||| soon ||| EGivenF=-0.1 FGivenE=-0.1 ||| 0-0
[X] ||| 7 jours ||| 7 7 days ||| EGivenF=-0.1 FGivenE=-0.1 ||| 0-0 1-2
[X] ||| en ||| in ||| EGivenF=-0.1 FGivenE=-0.1 ||| 0-0
[X] ||| de ||| ||| EGivenF=-0.1 FGivenE=-0.1
[X] ||| ; ||| too ||| EGivenF=-0.1 FGivenE=-0.1 ||| 0-0
"""


FRENCH_ENGLISH = TextPipeline(("fr", "en"), ("fr", "en"))


def make_translator(
    folder: Path,
    glossary: Glossary | None = None,
    *,
    rules: str = RULES,
    pipeline: TextPipeline = FRENCH_ENGLISH,
    casing: Casing = NO_CASING,
) -> Translator:
    """Return a translator that uses the rules and the tokenizers of a pipeline, without a language model."""
    made = resources(folder, glossary, with_lm=False)
    path = folder / "text.cdec"
    path.write_text(rules)
    return made.translator(replace(made.grammar(str(path)), pipeline=pipeline, target_casing=casing))


@pytest.fixture
def translator(tmp_path: Path) -> Translator:
    casing = Casing({"london": ("London",), "may": ("May",), "she": ("she",)})
    return make_translator(tmp_path, casing=casing)


def _replaced(translator: Translator, **attributes: object) -> Translator:
    """Return a copy of the translator with other attributes."""
    changed = copy(translator)
    vars(changed).update(attributes)
    return changed


@pytest.fixture
def text_translator(translator: Translator) -> TextTranslator:
    return TextTranslator(translator)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("La maison blanche.", "White the house."),
        ("la maison blanche.", "white the house."),
        ("Elle ne vient pas. La maison!", "She does not come. The house!"),
        ("Elle ne vient pas,\n\n  la maison.\r\n", "She does not come,\n\n  the house.\r\n"),
        ("ELLE NE VIENT PAS", "SHE DOES NOT COME"),
        ("Maison à Londres", "House in London"),
        ("Zut, elle à Londres", "Zut, she in London"),
        ("«Elle», (la maison)", "«She», (the house)"),
        ("«Elle»; elle", "«She» too she"),
        ("", ""),
        (" \n ", " \n "),
        ("... — !", "... — !"),
        ("euh", ""),
        ("%s", "%s"),
        ("elle vient le 3 mai", "she come on May 3"),
        ("elle vient en 7 jours", "she come in 7 days"),
        ("l'eau", "l'eau"),
        ("La mai\u00adson blan\u00adche", "White the house"),
        ("\u00ad", "\u00ad"),
        ("\x01", "\x01"),
    ],
)  # fmt: skip
def test_text_is_translated_with_its_case_spaces_and_line_ends(
    text_translator: TextTranslator, source: str, target: str
) -> None:
    assert text_translator.translate(source).text == target


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("la maison oui, la maison.", "the house, the house."),
        ("La maison, bah, la maison!", "The house. The house!"),
        ("La maison oui.", "The house."),
        ("La maison oh", "The house"),
        ("La maison hum la maison", "The house the house"),
        ("«La maison,» hum (la maison).", "«The house,» (the house)."),
        # The source also has an unpaired or repeated mark, so such marks are kept.
        ("«La maison hum", "«The house)"),
        ("la maison oui, la maison!!", "the house,, the house!!"),
        # A mark that is the whole translation is kept.
        ("oh", '"'),
        ("Hum", ")"),
    ],
)
def test_repeated_and_unpaired_marks_are_dropped_unless_the_source_has_such_marks(
    tmp_path: Path, source: str, target: str
) -> None:
    pairs = [("la", "the"), ("maison", "house"), ("oui", ","), ("bah", "."), ("oh", '"'), ("hum", ")")]
    rules = "".join(f"[X] ||| {one} ||| {other} ||| EGivenF=-0.1 ||| 0-0\n" for one, other in pairs)
    translator = make_translator(tmp_path, rules=rules, pipeline=TextPipeline(("qaa", "qab"), ("qaa", "qab")))
    assert TextTranslator(translator).translate(source).text == target


def test_oversized_sentences_are_counted(text_translator: TextTranslator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translating, "MAX_WORDS", 3)
    found = text_translator.translate("La maison. Elle vient la maison. Elle ne vient pas la maison!")
    assert (found.divided_sentences, len(found.translation.decoded_parts)) == (2, 6)
    assert text_translator.translate("la maison", format="tokens").divided_sentences == 0
    assert text_translator.translate("la maison la maison", format="tokens").divided_sentences == 1


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Londres vient", "LND come"),
        ("londres vient", "London come"),
        ("La Maison", "The HUT"),
        ("ELLE NE VIENT PAS À LONDRES", "SHE DOES NOT COME IN LND"),
    ],
)
def test_a_glossary_is_matched_with_the_case_of_the_text(tmp_path: Path, source: str, target: str) -> None:
    translator = make_translator(tmp_path, Glossary({("Londres",): (("LND",),), ("maison",): (("HUT",),)}))
    assert TextTranslator(translator).translate(source).text == target


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("la maison vient", "the BIG House come"),
        ("La maison", "The BIG House"),
        ("Maison", "BIG House"),
        ("voilà", "Home"),
    ],
)
def test_words_of_a_glossary_keep_their_capitals(tmp_path: Path, source: str, target: str) -> None:
    glossary = Glossary({("maison",): (("BIG", "House"),), ("voilà",): (("Home",),)})
    forms = {"big": ("big",), "house": ("house",), "home": ("home",)}
    translator = make_translator(tmp_path, glossary, casing=Casing(forms, "en", capital_fragments=False))
    assert TextTranslator(translator).translate(source).text == target


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("ទឹកផ្ទះល្អ។", "ទឹកHOUSEល្អ។"),
        ("ផ្ទះ​ល្អ ផ្ទះ", "HOUSEល្អ HOUSE"),
        ("ផ្ទះស្រុក", "HOUSELAND"),
        ("ស្រុកា", "ស្រុកា"),
        ("ទឹក {x}ផ្ទះ", "ទឹក {x}HOUSE"),
    ],
)
def test_glossary_terms_are_found_in_text_without_spaces(tmp_path: Path, source: str, target: str) -> None:
    glossary = Glossary({("ផ្ទះ",): (("HOUSE",),), ("ស្រុក",): (("LAND",),), ("ទឹក", "ផ្ទះ"): (("W",),)})
    translator = make_translator(tmp_path, glossary, pipeline=TextPipeline(("km", "en"), ("km", "en")))
    found = TextTranslator(translator).translate(source)
    # Words of Khmer in English text have spaces around them.
    assert found.text.replace(" ", "").replace("​", "") == target.replace(" ", "")
    [paragraph] = found.paragraphs
    text_spans = "".join(source[start:end] for start, end in paragraph.text_spans)
    assert text_spans.replace(" ", "") == source.replace("\u200b", "").replace(" ", "")
    tokens = TextTranslator(translator).translate(source, format="tokens")
    assert ("HOUSE" in tokens.text, "LAND" in tokens.text) == ("HOUSE" in target, "LAND" in target)


@pytest.mark.parametrize(
    ("segmented", "words", "divided"),
    [
        (True, "中国 人", "中国 人"),
        (True, "中 国 人", "中 国人"),
        (False, "中国人", "中 国人"),
        (False, "中国 人", "中 国人"),
    ],
)
def test_glossary_entries_match_whole_words_if_a_package_segments_words(
    segmented: bool, words: str, divided: str
) -> None:
    glossary = Glossary({("国人",): (("compatriot",),)}, segmented=segmented)
    assert glossary.divide_words(tuple(words.split())) == tuple(divided.split())


def test_tibetan_syllables_are_matched_with_their_final_sign() -> None:
    glossary = Glossary({("ཁྱི",): (("dog",),), ("བཀྲ་", "ཤིས"): (("luck",),)})
    assert glossary.divide_words(("བཀྲ་", "ཤིས་", "ཁྱི་", "ཁྱིམ་")) == ("བཀྲ་", "ཤིས", "ཁྱི", "ཁྱིམ་")


@pytest.mark.parametrize(
    "text",
    [
        "25 °C, 30°C, 68 °F",
        "5€ 6 € €7 $ 8",
        """7'6" x 9'6", 5' x 8'""",
        "3 : 2, 10:30, 16:9",
        "1939–1945, 10 – 20, 10-20",
        "±5 ± 6 #7 № 8 §9 § 10",
        "12 km/h 5GB 5 GB 2×4 2 × 4",
    ],
)
def test_spaces_of_passed_through_text_are_kept(text_translator: TextTranslator, text: str) -> None:
    assert text_translator.translate(text).text == text


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("la maison {x} blanche", "the house white {x}"),
        ("({x}) elle, «%s».", "({x}) she, «%s»."),
        ("elle {a}{b} vient", "she {a}{b} come"),
        ("la {a}-{b} maison", "the {a}-{b} house"),
        ("la <b>maison</b> blanche", "white the <b>house</b>"),
        ("la maison <b>blanche</b>", "<b>white</b> the house"),
        ("<b>la maison</b> <i>blanche</i>.", "<i>white</i> <b>the house</b>."),
        ("<b>La <i>maison</i></b> blanche", "White <b>the <i>house</i></b>"),
        ("elle<br/>vient", "she<br/>come"),
        ("<b>elle vient", "<b>she come"),
        ("elle &amp; la maison\\n", "she &amp; the house\\n"),
        ("a < b", "a < b"),
    ],
)
def test_placeholders_and_tags_are_placed_by_the_links(
    text_translator: TextTranslator, source: str, target: str
) -> None:
    assert text_translator.translate(source).text == target


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("<p>La <b>maison</b>.</p>\n<p>Elle</p>", "<p>The <b>house</b>.</p>\n<p>She</p>"),
        ("elle &amp; la &lt;maison&gt;", "she &amp; the &lt;house&gt;"),
        ("<!DOCTYPE html><title>La maison</title><!-- la -->", "<!DOCTYPE html><title>The house</title><!-- la -->"),
        ("la <code>maison  la</code> maison", "the <code>maison  la</code> house"),
        ("<pre>la maison</pre><script>la < b</script>elle", "<pre>la maison</pre><script>la < b</script>she"),
        ('<div translate="no">la <div>la</div></div>la', '<div translate="no">la <div>la</div></div>the'),
        ('<span class="x notranslate">la maison</span> la', '<span class="x notranslate">la maison</span> the'),
        ("<ul><li>la<li>maison</ul>", "<ul><li>the<li>house</ul>"),
        ("<i>la<p>maison</p></i>", "<i>the<p>house</p></i>"),
        ("<b> </b><a href='?a=1&amp;b'>la</a>", " <b></b><a href='?a=1&amp;b'>the</a>"),
        ("la <img src=x> maison<br>elle", "the <img src=x> house<br>she"),
        ("http://x.org/?a=1&amp;b=2", "http://x.org/?a=1&amp;b=2"),
    ],
)
def test_html_is_translated_and_keeps_its_markup(text_translator: TextTranslator, source: str, target: str) -> None:
    assert text_translator.translate(source, format="html").text == target


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("La maison.<sup>1</sup> Elle vient.", "The house.<sup>1</sup> She come."),
        ("La maison<sup>1</sup>. Elle", "The house<sup>1</sup>. She"),
        ("La maison<sup>[note 2]</sup> blanche.", "White the house<sup>[note 2]</sup>."),
        ("La maison.<sup>1, 2</sup><sup>*</sup> Elle", "The house.<sup>1, 2</sup><sup>*</sup> She"),
        ("La maison.<sup><a href='#n'>3</a></sup> Elle", "The house.<sup><a href='#n'>3</a></sup> She"),
        ("La maison.<a href='#n'><sup>3</sup></a> Elle", "The house.<a href='#n'><sup>3</sup></a> She"),
        ("<sup>1</sup> La maison. <sup>2</sup>Elle", "<sup>1</sup> The house. <sup>2</sup>She"),
        ("Elle vient.<sup>1</sup>La maison", "She come.<sup>1</sup> The house"),
        ("Elle vient.<sup><a>[2]</a></sup>La maison", "She come.<sup><a>[2]</a></sup> The house"),
        ("<sup>1</sup>", "<sup>1</sup>"),
        ("Elle.<sup>a</sup> La maison", "She.<sup>a</sup> The house"),
    ],
)
def test_footnote_marks_stay_after_the_same_word(text_translator: TextTranslator, source: str, target: str) -> None:
    assert text_translator.translate(source, format="html").text == target
    assert text_translator.translate(source).text == target


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("<ruby>maison<rt>home</rt></ruby> la", "<ruby>house<rt>home</rt></ruby> the"),
        (
            "<ruby><rb>maison</rb><rp>(</rp><rt>home <b>x</b></rt><rp>)</rp></ruby>",
            "<ruby><rb>house</rb><rp>(</rp><rt>home <b>x</b></rt><rp>)</rp></ruby>",
        ),
        ("<ruby>mai<rt>a</rt>son<rt>b</rt></ruby>", "<ruby><rt>a</rt>house<rt>b</rt></ruby>"),
        ("<ruby>漢<rt>かん</rt>字<rt>じ</rt></ruby>", "<ruby>漢<rt>かん</rt>字<rt>じ</rt></ruby>"),
    ],
)
def test_the_pronunciation_of_ruby_text_is_not_translated(
    text_translator: TextTranslator, source: str, target: str
) -> None:
    assert text_translator.translate(source, format="html").text == target


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("la <b>maison <i>blanche</i></b>", "<b><i>white</i> the house</b>"),
        ("<b>La <i>maison <u>blanche</u></i></b>", "<b><i><u>White</u> the house</i></b>"),
        ("<s>la</s><u>maison</u>", "<s>the</s> <u>house</u>"),
        ("<a>La maison</a><a>Elle</a><a>la</a>", "<a>The house</a> <a>she</a> <a>the</a>"),
        ("<b>La maison.</b>Elle", "<b>The house.</b> She"),
        ("La maison.<b>Elle</b>", "The house. <b>She</b>"),
        ("www.<b>elle</b>.fr", "www.<b>elle</b>.fr"),
        ("la <b>mai</b>son", "the <b>house</b>"),
        ("H<sub>2</sub>O la", "H<sub>2</sub>O the"),
        ("mc<sup>2</sup> la", "mc<sup>2</sup> the"),
        ("le 1<sup>er</sup> mai", "on 1<sup>er</sup> May"),
        ("z<i>u<u>t</u></i> &amp; la", "z<i>u<u>t</u></i> &amp; the"),
    ],
)
def test_inline_tags_keep_their_words(text_translator: TextTranslator, source: str, target: str) -> None:
    assert text_translator.translate(source, format="html").text == target


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("La maison.<br>Elle vient.<br/>", "The house.<br>She come.<br/>"),
        ("<br>La maison.<img src=x> Elle", "<br>The house.<img src=x> She"),
        ("<a><img src=x></a> la <a><img src=y> maison</a>", "<a><img src=x></a> the <a><img src=y> house</a>"),
        ("La maison.<!-- a --> Elle<!-- b -->", "The house.<!-- a --> She<!-- b -->"),
        ("mai<!-- a -->son", "<!-- a -->house"),
        ("la mai<wbr>son", "the<wbr> house"),
        ("<b></b>la <i class='x'></i>maison", "<b></b>the <i class='x'></i>house"),
        ("<i class='x'></i> La maison <b><i></i></b>elle", "<i class='x'></i> The house <b><i></i></b>she"),
        ("<span translate=no>Foo</span> vient", "<span translate=no>Foo</span> come"),
        ("La <code>x</code>.<sup>1</sup> Elle &eacute;t&eacute;", "The <code>x</code>.<sup>1</sup> She été"),
        ("<p>elle&nbsp;vient</p><!-- la", "<p>she come</p><!-- la"),
    ],
)
def test_tags_without_words_stay_between_the_same_words(
    text_translator: TextTranslator, source: str, target: str
) -> None:
    assert text_translator.translate(source, format="html").text == target


class Tags(HTMLParser):
    """HTML parser that fails if an end tag does not close the last open element, or an element stays open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(f"<{tag} {attrs}>")
        if tag not in ("br", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.seen.append(f"</{tag}>")


WORDS = [
    "la", "maison", "blanche", "elle", "ne", "vient", "pas", "zut", "à", "londres", "euh", "en", "7", "jours", "le",
    "3", "mai", "de", "12", "1,5",
]  # fmt: skip
MARKS = ["%s", "%1$d", "{name}", "{0}", "http://x.org/a?b=1", "a@b.org", "{{ v }}", "@who"]


def random_segment(random: random.Random, is_html: bool) -> str:
    """Return a random segment of words, placeholders, addresses and nested tags."""

    def some(deep: int) -> list[str]:
        out: list[str] = []
        for _ in range(random.randint(0 if deep else 1, 6)):
            kind = random.random()
            if kind < 0.55 or (deep > 2 and kind > 0.8):
                out.append(random.choice(WORDS) + random.choice(["", "", "", ",", "."]))
            elif kind < 0.8:
                out.append(random.choice(MARKS).replace("&", "&amp;" if is_html else "&"))
            elif kind < 0.85 and is_html:
                out.append(random.choice(["<br>", "<img src=x>", "<code>%s la</code>"]))
            else:
                tag = random.choice(["b", "i", "a", "em"])
                out.append(f'<{tag} id="n{random.randint(1, 10**6)}">' + " ".join(some(deep + 1)) + f"</{tag}>")
        return out

    return random.choice([" ", " ", "  "]).join(some(0))


@pytest.mark.slow
def test_no_tag_or_placeholder_is_lost_or_doubled(text_translator: TextTranslator) -> None:
    source = random.Random(5)
    for number in range(1000):
        is_html = number % 2 == 1
        segment = random_segment(source, is_html)
        found = text_translator.translate(segment, format="html" if is_html else "text", best=1 + number % 3)
        for text in found.texts:
            wanted, got = (
                Counter(re.findall(r"<[^>]*>|\{\{ v \}\}|[%{][^\s<,.]+|http:[^\s<,]*\w|\w+@\w+\.org|@who|\d+", some))
                for some in (segment, text)
            )
            assert wanted == got, (segment, text)
            assert [mark for mark in re.findall(r"[{%]\S*|@who", text) if " " in mark] == []
            if is_html:
                assert Counter(Tags(text).seen) == Counter(Tags(segment).seen), (segment, text)


STRANGE = [
    *PIECES, "la maison", "Elle.", " ", "\n", "\u2028", "<b>", "</b>", "<i", "<p>", "</p>", "&nbsp;", "%s", "{x}",
    "3,5", "«", "»", "“", "”", "’", "(", ")", "。",
    "e\u0301", "<script>", "<x/>", "\x00", "\u00a0", "\u00ad", "Qk", "QkaZz", "ELLE",
    "...", "<b translate=no>", "http://a.b",
]  # fmt: skip


def test_texts_of_unusual_characters_are_translated_with_their_line_ends(translator: Translator) -> None:
    source = random.Random(9)
    general = TextTranslator(_replaced(translator, pipeline=TextPipeline()))
    for number in range(240):
        text = "".join(source.choice(STRANGE) + source.choice(["", "", " "]) for _ in range(source.randint(0, 14)))
        text_translator = (general, TextTranslator(translator))[number % 2]
        found = text_translator.translate(text, format=("text", "html")[number // 2 % 2], best=1 + number % 3)
        assert found.texts
        if number // 2 % 2 == 0:
            assert found.text.count("\n") == text.count("\n"), repr(text)


def test_placeholders_are_linked_to_themselves(text_translator: TextTranslator) -> None:
    source = random.Random(6)
    for _ in range(100):
        marks = [f"{{{k}}}" for k in range(source.randint(1, 5))]
        segment = " ".join(word for mark in marks for word in (mark, source.choice(WORDS)))
        found = text_translator.translate(segment)
        tokens, own = found.translation.source, found.candidates[0].words
        for i, j in found.alignment():
            if tokens[i] in marks:
                assert own[j] == tokens[i]
        assert [word for word in own if word in marks] == re.findall(r"\{\d\}", found.text)


def test_tags_that_are_crossed_by_links_stay_nested() -> None:
    pairs = [
        TagPair("<a>", "</a>", 0, 3, [TagPair("<c>", "</c>", 0, 1)]),
        TagPair("<b>", "</b>", 4, 7),
        TagPair("<e>", "</e>", 8, 8),
    ]
    text_spans = [(k, k + 1) for k in range(0, 10, 2)]
    links = [(0, 0), (1, 3), (2, 1), (3, 4), (3, 2), (4, 5)]
    shown = "".join(map(str, place_tags(pairs, text_spans, links, 6)))
    assert shown == "<a><c>0</c></a><b>12</b>34<e></e>5"
    order = random.Random(7)
    for _ in range(300):
        links = [(order.randrange(5), order.randrange(6)) for _ in range(order.randint(0, 9))]
        events = list(place_tags(pairs, text_spans, links, 6))
        assert [event for event in events if isinstance(event, int)] == list(range(6))
        Tags("".join(map(str, events)))


def test_a_footnote_mark_follows_all_translations_of_its_word() -> None:
    marks = [TagPair("<sup>1</sup>", "", 3, 3)]
    assert "".join(map(str, place_tags(marks, [(0, 3), (4, 7)], [(0, 0), (0, 1), (1, 2)], 3))) == "01<sup>1</sup>2"


def test_alternative_translations_are_different_texts(text_translator: TextTranslator) -> None:
    found = text_translator.translate("La maison. Maison!", best=4)
    assert found.texts[0] == "The house. House!"
    assert len(set(found.texts)) == len(found.texts) == 4
    assert [one.score for one in found.candidates] == sorted((one.score for one in found.candidates), reverse=True)
    plain = as_plain(found)
    assert plain["tokens"] == "la maison . maison !"
    assert plain["candidates"][0]["tokens"] == "the house . house !"
    for number, one in enumerate(plain["candidates"]):
        assert one["alignment"] == found.alignment(number)
        assert max(j for _, j in one["alignment"]) == len(one["tokens"].split()) - 1
    assert text_translator.translate("", best=4).candidates == []


def test_paragraphs_report_word_positions(text_translator: TextTranslator) -> None:
    found = text_translator.translate("La maison. Elle\n\nne vient pas")
    assert [paragraph.text for paragraph in found.paragraphs] == ["La maison. Elle", "ne vient pas"]
    for paragraph in found.paragraphs:
        tokens = found.translation.source[slice(*paragraph.source_span)]
        shown = [paragraph.text[start:end] for start, end in paragraph.text_spans]
        assert [word.lower() for word in shown] == list(tokens)
        assert len(paragraph.target_words) == paragraph.target_span[1] - paragraph.target_span[0]
    assert "".join(part for pair in found.paragraphs[0].target_words for part in pair) == "The house. She"


def test_translations_given_in_markup_are_used_in_text(text_translator: TextTranslator) -> None:
    marked = 'Elle, <n translation="at home||home">la maison</n>. <b>Elle</b>'
    assert text_translator.translate(marked, markup=True).text == "She, at home. <b>She</b>"
    assert text_translator.translate(marked, markup=True, format="html").text == "She, at home. <b>She</b>"
    assert "translation=" in text_translator.translate(marked).text


def test_translations_in_tokens_are_not_detokenized(text_translator: TextTranslator, tmp_path: Path) -> None:
    found = text_translator.translate("La maison, elle.", format="tokens")
    assert found.text == "the house , she ."
    assert found.paragraphs == []
    bare = TextTranslator(small_translator(tmp_path))
    assert (bare.default_format, text_translator.default_format) == ("tokens", "text")
    assert bare.translate("la maison").text == "the house"
    assert bare.translate("La maison.", format="text").text == "The house."


def test_translations_of_text_do_not_depend_on_threads(text_translator: TextTranslator) -> None:
    source = random.Random(8)
    lines = [random_segment(source, False) for _ in range(40)]
    one, three = ([found.text for found in in_threads(text_translator.translate, lines, k)] for k in (1, 3))
    assert one == three


def test_a_lowercase_store_translates_with_the_capitals_of_the_text(translator: Translator) -> None:
    text_translator = TextTranslator(_replaced(translator, pipeline=replace(FRENCH_ENGLISH, lower=True)))
    assert text_translator.translate("La Maison. «Elle», ELLE").text == "The House. «She», SHE"
    assert text_translator.translate("LA MAISON BLANCHE").text == "WHITE THE HOUSE"


def test_sentences_are_translated_in_groups_of_the_grammar_s_size(translator: Translator) -> None:
    source = "Elle ne vient pas. La maison! La maison."
    for sentences, parts in ((1, 3), (2, 2), (3, 1)):
        verses = replace(translator.grammar, group_size=sentences)
        found = TextTranslator(_replaced(translator, grammar=verses)).translate(source)
        assert len(found.translation.decoded_parts) == parts
        assert found.text.startswith("She does not come. ")


def test_the_group_size_is_the_usual_number_of_sentences_per_pair(tmp_path: Path) -> None:
    sources = ["Elle vient.", "Elle vient. Il vient.", "Elle vient... Qui vient? «Moi.»"]
    for more, usual in ((0, 3), (20, 2), (400, 1)):
        with hg.open(tmp_path / f"{more}.db", create=True, languages=("fr", "en"), tokenize=True) as store:
            store.add([(text, "She comes.") for text in [*sources, *sources[1:2] * min(more, 20), *sources[:1] * more]])
            store.learn(0, threads=1).run()
            assert hg.Decoder(store).translator().grammar.group_size == usual


def test_the_space_between_sentences_is_kept(text_translator: TextTranslator) -> None:
    for gap in (" ", "  ", "\t", "\n", "\u00a0"):
        found = text_translator.translate(f"Elle vient.{gap}Elle vient.")
        assert found.text == f"She come.{gap}She come.", repr(gap)
