"""Words that a grammar does not know: known words that stand in for them.

Most are inflected forms of words that are known, or begin a sentence with a capital letter. So the known word that is
spelled alike is taken in their place, with all its rules, in phrases, too.
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

    def number(self, word: str) -> int | None:
        """Return the number of the word that stands in for an unknown one; None where none does."""
        if word not in self._found:
            known = self._word(word)
            self._found[word] = None if known is None else self._numbers[known]
        return self._found[word]

    def _word(self, word: str) -> str | None:
        folded = word.lower()
        if folded in self._folded:
            return self._folded[folded]
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
