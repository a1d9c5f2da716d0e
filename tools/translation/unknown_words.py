"""Words that a grammar does not know: known words that stand in for them.

Most are inflected forms of words that are known, or begin a sentence with a capital letter. So the known word that is
spelled alike is taken in their place, with all its rules, in phrases, too. Names are left as they are: one that is
spelled almost so is another.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping

SHARED = 4
"""Letters that two words share at least, at their beginnings and ends together."""
_INDEXED = 3


def shared_beginning(one: str, other: str) -> int:
    """Return the number of letters that two words begin with alike."""
    return next((k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def shared_letters(one: str, other: str) -> int:
    """Return the number of letters at the beginning and the end that two words share; none counts twice."""
    most = min(len(one), len(other))
    before = shared_beginning(one, other)
    behind = 0
    while behind < most - before and one[-1 - behind] == other[-1 - behind]:
        behind += 1
    return before + behind


def is_name(word: str, before: str) -> bool:
    """Return whether a word has a capital letter though it begins no sentence: a word or a comma is before it."""
    return word[:1].isupper() and (before == "," or any(map(str.isalnum, before)))


class StandIns:
    """Find known words for unknown ones; may be used from several threads."""

    def __init__(self, numbers: Mapping[str, int], translated: Collection[int], alike: float) -> None:
        """`numbers` of known words; those stand in for others whose number is among the `translated`.

        They have at least the share `alike` of the letters of the longer of the two words; where they begin otherwise,
        half of the letters that may differ.
        """
        self._numbers = numbers
        self._least = alike
        self._folded: dict[str, str] = {}
        self._alike: dict[str, list[str]] = defaultdict(list)
        for word, number in numbers.items():
            if number in translated and any(map(str.isalpha, word)) and not any(map(str.isdigit, word)):
                folded = word.lower()
                # Where there are both, the one in small letters is the commoner.
                if folded not in self._folded or word == folded:
                    self._folded[folded] = word
        for folded in self._folded:
            if len(folded) >= SHARED:
                for key in {f"{folded[:_INDEXED]}-", f"-{folded[-_INDEXED:]}"}:
                    self._alike[key].append(folded)
        self._found: dict[str, int | None] = {}

    def number(self, word: str, before: str = "") -> int | None:
        """Return the number of the word that stands in for an unknown one behind another; None where none does."""
        folded = word.lower()
        if folded in self._folded:
            return self._numbers[self._folded[folded]]
        if is_name(word, before):
            return None
        if folded not in self._found:
            known = self._word(folded)
            self._found[folded] = None if known is None else self._numbers[known]
        return self._found[folded]

    def _word(self, folded: str) -> str | None:
        if len(folded) < SHARED or any(map(str.isdigit, folded)):
            return None
        near = {*self._alike.get(f"{folded[:_INDEXED]}-", ()), *self._alike.get(f"-{folded[-_INDEXED:]}", ())}
        best: tuple[float, int, str] | None = None
        for known in near:
            shared = shared_letters(folded, known)
            alike = shared / max(len(folded), len(known))
            least = self._least if shared_beginning(folded, known) >= _INDEXED else (1 + self._least) / 2
            if shared >= SHARED and alike >= least and (best is None or (alike, shared, known) > best):
                best = alike, shared, known
        return None if best is None else self._folded[best[2]]
