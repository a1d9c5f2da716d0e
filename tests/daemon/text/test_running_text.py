"""Running text and tokens are distinguished in scripts with and without spaces."""

import pytest

from hierogram.daemon.text.inspection import count_signs
from hierogram.daemon.text.languages import find_language

RUNNING = {
    "en": ["Mr. Hill sold the red boat.", "Is it late?", "We eat, then we sleep.", '"Stop!"', "A small house", "Go!"],
    "fr": ["L'eau est froide.", "Qui est là ?", "Il mange, puis il dort.", "« Non ! »", "Une maison", "Oui, merci."],
    "sw": ["Maji ni baridi.", "Nani yuko?", "Anakula, kisha analala.", "Nyumba ndogo", "Nenda!", "Mtu mmoja, kweli."],
    "ru": ["Вода холодная.", "Кто там?", "Он ест, потом спит.", "Маленький дом", "Иди!", "Да, конечно."],
    "el": ["Το νερό είναι κρύο.", "Ποιος είναι;", "Τρώει, μετά κοιμάται.", "Ένα σπίτι", "Έλα!", "Ναι, βέβαια."],
    "ar": ["الماء بارد.", "من هناك؟", "يأكل، ثم ينام.", "بيت صغير", "اذهب!", "نعم، طبعا."],
    "hi": ["पानी ठंडा है।", "वहाँ कौन है?", "वह खाता है, फिर सोता है।", "छोटा घर", "जाओ!", "हाँ, ज़रूर।"],
    "am": ["ውሃው ቀዝቃዛ ነው።", "ማን ነው?", "ይበላል፣ ከዚያ ይተኛል።", "ትንሽ ቤት", "ሂድ!", "አዎ፣ በእርግጥ።"],
    "hy": ["Ջուրը սառն է։", "Ո՞վ է այնտեղ։", "Նա ուտում է, հետո քնում է։", "Փոքր տուն", "Գնա՛։", "Այո, իհարկե։"],
    "zh": ["水很冷。", "谁在那里？", "他吃饭，然后睡觉。", "小房子", "走！", "是的，当然。"],
    "th": ["น้ำเย็นมากในฤดูหนาวของทุกปี", "ใครอยู่ที่นั่นกับพี่ชายของเธอ?", "เขากินข้าวแล้วเขาก็นอนหลับ", "บ้าน"],
}
TOKENS = {
    # These are tokens of the Moses tokenizer.
    "en": [
        "Mr. Hill sold the red boat .",
        "Is it late ?",
        "We eat , then we sleep .",
        '" Stop ! "',
        "He left at 8 a.m.",
    ],
    "fr": ["L' eau est froide .", "Qui est là ?", "Il mange , puis il dort .", "« Non ! »", "Une maison", "Va !"],
    # These are words as segmented by jieba and pythainlp.
    "zh": ["水 很 冷 。", "谁 在 那里 ？", "他 吃饭 ， 然后 睡觉 。", "小 房子", "走 ！", "是的 ， 当然 。"],
    "th": ["น้ำ เย็น มาก .", "ใคร อยู่ ที่นั่น ?", "เขา กิน ข้าว , แล้ว เขา ก็ นอน", "บ้าน"],
}


def windows(lines: list[str], size: int) -> list[list[str]]:
    """Return a sample of `size` consecutive lines for each first line. The lines repeat."""
    repeated = lines * (size // len(lines) + 2)
    return [repeated[start : start + size] for start in range(len(lines))]


@pytest.mark.parametrize("size", [1, 5, 20, 100])
@pytest.mark.parametrize("language", RUNNING)
def test_running_text_is_recognized_by_samples_of_any_size(language: str, size: int) -> None:
    decisions = [count_signs(sample).is_running for sample in windows(RUNNING[language], size)]
    assert False not in decisions
    # Titles, and lines whose only mark has a space before it in French, have no signs.
    assert decisions.count(True) >= (len(decisions) / 2 if size == 1 else len(decisions))


@pytest.mark.parametrize("size", [1, 5, 20, 100])
@pytest.mark.parametrize("language", TOKENS)
def test_tokens_are_recognized_by_samples_of_any_size(language: str, size: int) -> None:
    decisions = [count_signs(sample).is_running for sample in windows(TOKENS[language], size)]
    # `He left at 8 a.m.` alone looks like running text.
    assert decisions.count(True) == (language == "en" and size == 1)
    assert decisions.count(False) >= (len(decisions) / 3 if size == 1 else len(decisions))


@pytest.mark.parametrize("language", sorted(set(RUNNING) - {"zh", "th"}))
def test_text_tokenized_by_the_rules_is_recognized(language: str) -> None:
    tokens = [" ".join(find_language(language).tokens(line)) for line in RUNNING[language]]
    assert count_signs(tokens).is_running is False


def test_the_reason_counts_lines_with_attached_or_separate_punctuation() -> None:
    assert str(count_signs(["La maison.", "Un chat", "", "Qui?"])) == (
        "running text: 2 of 3 lines have punctuation attached to words"
    )
    assert str(count_signs(RUNNING["th"])) == (
        "running text: 0 of 4 lines have punctuation attached to words, and 3 have no spaces between words"
    )
    assert str(count_signs(["La maison .", "M.", "Un , deux"])) == (
        "tokenized: 2 of 3 lines have spaces before punctuation"
    )


@pytest.mark.parametrize(
    ("lines", "is_running"),
    [
        ([], None),
        (["", " "], None),
        (["l &apos; ami dit &quot; non &quot;"], None),
        (["La maison.", "La maison ."], True),
        (["un chat"] * 19 + ["Un chat."], True),
        (["un chat"] * 20 + ["Un chat."], None),
        (["un chat"] * 2_000 + ["Un chat."] * 2_000, None),
    ],
)
def test_few_signs_leave_text_undetermined_and_equally_many_indicate_running_text(
    lines: list[str], is_running: bool | None
) -> None:
    assert count_signs(lines).is_running is is_running
