"""Words of every script stay whole, punctuation is separate, and detokenization restores the spacing."""

import random
import sys
import types
import unicodedata

import pytest

from hierogram.daemon.text.languages import Language, find_language, segmenter_advice
from hierogram.daemon.text.pipeline import TextSide
from hierogram.daemon.text.tokenizer import SPACE, Tokenizer

ZWSP, ZWNJ, ZWJ = "\u200b", "\u200c", "\u200d"

WORDS = {
    "a joiner inside": ("bn", ["র‍্যালি", "সে‌ই", "মাত‌্র"]),
    "a joiner inside, Persian": ("fa", ["می‌خواهم", "کتاب‌ها", "نمی‌دانم"]),
    "a joiner at the end": ("ml", ["ആണ്‌", "വകുപ്പ്‌", "എന്‍"]),
    "a joiner inside, Marathi and Sinhala": ("mr", ["करणार्‍या", "दर्‍या", "ක්‍රමය"]),
    "a combining mark": ("amr", ["o̱ne", "oknopoe̱y", "e̱"]),
    "a combining mark in Yoruba": ("yo", ["ẹ̀kọ́", "ọ̀rọ̀", "gbogbo̩"]),
    "gershayim": ("he", ['ארה"ב', 'מנכ"ל', "דו״ח"]),
    "geresh": ("he", ["ג'ירפה", "צ׳כיה", "פרופ'"]),
    "Armenian stress and question marks": ("hy", ["ի՞նչ", "ահա՛", "ավա՜ղ"]),
    "numbers of Arabic digits": ("ar", ["٣٫١٤", "١٬٠٠٠", "١٢٬٥٠٠٫٧٥"]),
    "a letter that looks like an apostrophe": ("uz", ["o‘zbek", "gʻisht", "ma’no"]),
    "a glottal stop at the edge": ("haw", ["‘ōlelo", "ʻāina", "mālama"]),
    "a click": ("naq", ["ǃgâi", "ǀkhā", "!nona"]),
    "an apostrophe inside, Swahili and Breton": ("sw", ["ng'ombe", "c'hoar", "wanyang’anyi"]),
    "a middle dot": ("ca", ["col·legi", "il·lusió", "paral·lel"]),
    "a hyphen": ("hu", ["Észak-Európa", "e‑mail", "al‐ban"]),
    "a hyphen at the edge": ("de", ["Haupt-", "-weise", "Vor-"]),
    "a colon": ("sv", ["EU:s", "k:a", "दु:ख"]),
    "a sign between letters": ("und", ["AT&T", "m+ki", "tod@s"]),
    "an abbreviation sign": ("hi", ["डॉ॰", "पं॰", "श्री॰"]),
    "an abbreviation of letters": ("und", ["O.N.U.", "p.ex.", "އ.ދ."]),
    "Burmese signs that are words": ("my", ["၏", "၌", "၍"]),
}


@pytest.mark.parametrize("kind", WORDS)
def test_words_of_every_script_are_single_tokens(kind: str) -> None:
    language, words = WORDS[kind]
    rules = find_language(language)
    for word in map(unicodedata.normalize, ["NFC"] * 3, words):
        for text in (word, f"a {word} b", f"({word}, b)"):
            assert word in rules.tokens(text), (text, rules.tokens(text))
            assert rules.join(rules.tokens(text)) == text


SIGNS = {
    "Ethiopic": ("am", ["ሰላም፣ ሰላም።", "አበባ፤ ውሃ፥ ቤት፦ አንድ", "እዮም፡፡ እዚ፧"]),
    "Ethiopic wordspaces": ("gez", ["ሰላም፡ለኪ፡ማርያም።", "በ፡ቤት"]),
    "Burmese": ("my", ["မင်္ဂလာပါ။", "အိမ်၊ ရေ၊ မီး။", "ကျွန်တော် လာတယ်။"]),
    "Khmer": ("km", ["ទឹក។", "ផ្ទះ៖ ទឹក ភ្លើង។", "ល្អ៕"]),
    "Tibetan": ("bo", ["བཀྲ་ཤིས་བདེ་ལེགས།", "ཆུ་དང༌། མེ།", "ཁྱིམ་ ཆུ་མེ།"]),
    "Cree": ("cr", ["ᐋᓂᓐ᙮", "ᓂᐱ ᐃᔥᑯᑌᐤ᙮ ᐋᐦ"]),
    "Meetei": ("mni", ["ꯑꯩ ꯂꯥꯛꯈꯤ꯫", "ꯏꯁꯤꯡ, ꯃꯩ꯫", "ꯌꯨꯝ꯫ ꯏꯁꯤꯡ꯫"]),
    "Chakma, Ol Chiki, Syriac": ("und", ["𑄃𑄟𑄨𑅁 𑄝𑄧𑄣𑄴𑅁", "ᱫᱟᱜ ᱚᱲᱟᱜ᱾", "ܟܢܘܫܝܐ܆ ܡܝܐ܀"]),
    "Armenian": ("hy", ["Ջուր՝ կրակ։", "Տուն․", "«Ջուր», ասաց։"]),
    "Arabic": ("ar", ["ماء، نار؛ بيت؟", "«ماء» (نار).", "بيت‏."]),
    "Punjabi": ("pa", ["ਘਰ ਹੈ।", "ਪਾਣੀ, ਅੱਗ।"]),
    "Hindi": ("hi", ["घर है। पानी है।", "घर, पानी; आग!"]),
    "Javanese": ("jv", [f"꧋ꦲꦩ꧈{ZWSP}ꦏꦧꦺꦃ꧉{ZWSP}", "꧋ꦲꦩ꧈ꦏꦧꦺꦃ꧉"]),
    "Lao": ("lo", ["ນໍ້າ ໄຟ, ເຮືອນ.", "ມື້ 3 ເດືອນ", "«ນໍ້າ» ໄຟ"]),
    "Yi": ("ii", ["ꆈꌠ，ꉙ。", "《ꆈꌠ》ꉙ"]),
    "Hakka": ("hak", ["人人生而自由，平等。", "第1 條「法律」", "用 Python 寫"]),
    "Adlam, Thaana": ("und", ["𞤢𞤣𞤢𞤥⹁ 𞤢𞤣", "ގެ، ފެން؟"]),
}


@pytest.mark.parametrize("kind", SIGNS)
def test_punctuation_is_tokenized_and_restored(kind: str) -> None:
    language, texts = SIGNS[kind]
    rules = find_language(language)
    for text in texts:
        tokens = rules.tokens(text)
        assert rules.join(tokens) == text, tokens
        assert rules.tokens(rules.join(tokens)) == tokens
        last = text.rstrip(ZWSP + "\u200f").rstrip()[-1]
        assert last.isalnum() or any(token.startswith(last) for token in tokens)


@pytest.mark.parametrize(
    ("language", "text", "tokens"),
    [
        ("fr", "J'aime l'art.", "J' aime l' art ."),
        ("fr", "(l'art.)", "( l' art . )"),
        ("fr", "« l'art. »", "« l' art . »"),
        ("fr", "le vol. 3 de l'art. 5", "le vol. 3 de l' art. 5"),
        ("en", "See fig. 3, no. 4, in vol.", "See fig . 3 , no . 4 , in vol ."),
        ("en", "Mr. Smith of D.C. met Mr.", "Mr. Smith of D.C. met Mr ."),
        ("und", "a vol. of J. Doe. Next", "a vol. of J. Doe . Next"),
        ("ka", "სახლი. წყალი.", "სახლი . წყალი ."),
    ],
)
def test_a_full_stop_belongs_to_abbreviations_within_a_line(language: str, text: str, tokens: str) -> None:
    assert " ".join(find_language(language).tokens(text)) == tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Yeye 'ndiye' mkubwa", "Yeye ' ndiye ' mkubwa"),
        ("Alisema 'njoo, twende'.", "Alisema ' njoo , twende ' ."),
        ("‘Ndiyo’ na ‘Hapana’", "‘ Ndiyo ’ na ‘ Hapana ’"),
        ("o'na ka'dik 'dik o'ne oro' ja", "o'na ka'dik 'dik o'ne oro' ja"),
        ("ma’u ‘a e ki’i fale ‘o’o", "ma’u ‘a e ki’i fale ‘o’o"),
    ],
)
def test_apostrophes_are_quotation_marks_only_in_pairs(text: str, tokens: str) -> None:
    rules = find_language("und")
    assert " ".join(rules.tokens(text)) == tokens
    assert rules.join(tokens.split()) == text


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("km", f"ទឹក{ZWSP}ភ្លើង ផ្ទះ{ZWSP}ល្អ។"),
        ("lo", f"ນໍ້າ{ZWSP}ໄຟ ເຮືອນ"),
        ("my", f"ရေ{ZWSP}မီး၊ အိမ်{ZWSP}ကြီး။"),
        ("shn", f"ၼမ်ႉ{ZWSP}ၾႆး ႁိူၼ်း"),
    ],
)
def test_zero_width_spaces_split_words_and_are_restored(language: str, text: str) -> None:
    rules = find_language(language)
    tokens = rules.tokens(text)
    assert not any(ZWSP in token for token in tokens)
    assert SPACE in tokens or " " not in text.rstrip("၊။") or language == "my"
    assert rules.join(tokens) == text


def test_zero_width_spaces_in_scripts_with_spaces_are_removed() -> None:
    for language, text in (("en", f"Donau{ZWSP}dampf"), ("ru", f"слово{ZWSP} и"), ("hi", f"{ZWSP}घर")):
        assert find_language(language).tokens(text) == text.replace(ZWSP, "").split()
    side = TextSide("en")
    words = side.words(f"Donau{ZWSP}dampf {{x}} ship", [])
    assert words[0][:3] == ("Donaudampf", 0, 11)


def test_a_space_between_phrases_is_a_token() -> None:
    text = "ທີ່ນີ້  ໄຟ {x}"
    words = TextSide("lo").words(text, [])
    assert [text[word.start : word.end] for word in words[:3]] == ["ທີ່ນີ້", "  ", "ໄຟ"]


def test_marks_stay_with_the_text_before_them_and_no_character_is_lost() -> None:
    chance = random.Random(1)
    letters = 'ab c.,\'’‘"-–(5)€%:… אב"٢٫កា្ខ។ကျ၊ཀི་།人あ。ሀ፡फि्ꦏꦺ꧈o\u0331\u0301' + ZWSP + ZWNJ + ZWJ
    sides = [find_language(code) for code in ("en", "fr", "he", "km", "bo", "und")]
    for _ in range(2_000):
        text = unicodedata.normalize("NFC", "".join(chance.choice(letters) for _ in range(chance.randint(1, 20))))
        tokens = chance.choice(sides).tokens(text)
        left = "".join(token for token in tokens if token != SPACE).replace(ZWSP, "")
        assert left == "".join(text.split()).replace(ZWSP, ""), (text, tokens)
        for before, token in zip(["", *tokens], tokens, strict=False):
            # A mark is a separate token only at the start, after a space, or in a text with zero-width spaces.
            alone = all(unicodedata.category(letter).startswith("M") for letter in token)
            assert not alone or before in ("", SPACE) or f" {token}" in text or ZWSP in text, (text, tokens)


@pytest.mark.parametrize(
    ("code", "package", "extra", "made", "word"),
    [
        ("km", "khmercut", "khmer", {"tokenize": list}, "ទក"),
        ("lo", "laonlp.tokenize", "lao", {"word_tokenize": list}, "ນໄ"),
    ],
)
def test_an_optional_package_segments_words(
    monkeypatch: pytest.MonkeyPatch, code: str, package: str, extra: str, made: dict[str, object], word: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    find_language.cache_clear()
    assert find_language(code).tokens(word) == [word]
    note = str(segmenter_advice([code]))
    assert f"{code} is written without spaces between words: text between spaces" in note
    assert f"run pip install '.[{extra}]' in the source folder" in note
    module = types.ModuleType(package)
    vars(module).update(made)
    for name in {package, package.partition(".")[0]}:
        monkeypatch.setitem(sys.modules, name, module)
    find_language.cache_clear()
    rules = find_language(code)
    assert rules.tokens(f"{word} {word}, ab") == [*word, SPACE, *word, ",", "ab"]
    assert rules.join(rules.tokens(f"{word} {word}")) == f"{word} {word}"
    assert segmenter_advice([code]) is None
    find_language.cache_clear()


def test_a_package_that_changes_text_is_not_used() -> None:
    rules = Language("th", segmenter=lambda text: [text[:1]])
    assert rules.tokens("กข") == ["กข"]


def test_languages_without_word_segmentation_are_reported() -> None:
    assert "each syllable" in str(segmenter_advice(["bo"]))
    assert "each character" in str(segmenter_advice(["hak"]))
    assert "between spaces" in str(segmenter_advice(["shn"]))
    assert "between spaces" in str(segmenter_advice(["jv-Java"]))
    assert segmenter_advice(["jv"]) is segmenter_advice(["fr"]) is segmenter_advice(["blt"]) is None


def test_a_tokenizer_has_no_state() -> None:
    texts = ["l'eau 'x' a. b.", "a.", "'x'"]
    first = [Tokenizer().tokens(text) for text in texts]
    tokenizer = Tokenizer()
    assert [tokenizer.tokens(text) for text in [*texts, *texts]] == [*first, *first]
