"""Library calls on texts: word alignment, translation, parsing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Unpack

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.library.options import PathLike, a_text, options_of, whole_number
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.progress import silence
from hierogram.daemon.text.texts import TextPipeline, pipeline_of

if TYPE_CHECKING:
    from hierogram.daemon.learning.alignment.aligning import Aligned
    from hierogram.daemon.learning.alignment.requests import Request
    from hierogram.daemon.library.keywords import AlignKeywords, ParseKeywords, TranslateKeywords
    from hierogram.samplers.alignment.bitext import Side
    from hierogram.samplers.alignment.prior_counts import LearnedCounts
    from hierogram.tools.translation.opening import Follower, TranslationResources
    from hierogram.tools.translation.options import TranslateOptions
    from hierogram.tools.translation.text_translator import TextTranslation, TextTranslator
    from hierogram.tools.translation.translating import Translator
    from hierogram.tools.treebanks.requests import ParseRequest


def align(
    source: PathLike | Iterable[str],
    target: PathLike | Iterable[str],
    *,
    priors: GrammarStore | None = None,
    tokenize: tuple[str, str] | None = None,
    tokenized: bool = False,
    options: Request | None = None,
    progress: Callable[[int, int], None] | None = None,
    **chosen: Unpack[AlignKeywords],
) -> Aligned:
    """Align sentences with their translations, line by line. Iteration over the result gives the links of each pair.

    `source` and `target` are sentences, or files with one sentence per line. With `priors`, the aligner starts from the
    counts of a store and divides text as the store does. `tokenize` divides text by the rules of two languages;
    `tokenized` text stays as it is. Options are those of `Request`. Links count tokens from 0. The same input and seed
    give the same links for any number of threads. Raises `UsageError`, `InputError`, `AlignmentInputError`.
    """
    from hierogram.daemon.learning.alignment.aligning import align
    from hierogram.daemon.learning.alignment.requests import Request

    texts = texts_of(priors, tokenize, tokenized)
    sources, targets = (
        [side.tokens(line) for line in _sentences(given)]
        for side, given in ((texts.source, source), (texts.target, target))
    )
    known = None if priors is None else _learned(priors)
    found = align(sources, targets, options_of(Request, options, chosen), progress, known)
    return found.in_words(sources, targets) if texts.joins else found


def texts_of(store: GrammarStore | None, tokenize: tuple[str, str] | None, tokenized: bool) -> TextPipeline:
    """Return the text processing that options and a store define. Raises `UsageError`."""
    if tokenized:
        if tokenize is not None:
            raise UsageError("--tokenize and --tokenized are mutually exclusive")
        return pipeline_of({} if store is None else store.settings()).of_words()
    return pipeline_of({} if store is None else store.settings(), tokenize=tokenize)


def _sentences(given: PathLike | Iterable[str]) -> Iterable[str]:
    if not isinstance(given, str | Path):
        return given
    from hierogram.daemon.text.lines import read_sentences

    return read_sentences(str(given))


def _learned(priors: GrammarStore) -> Callable[[Side, Side], LearnedCounts]:
    """Return a function from the words of two sides to the counts of the store's aligner."""
    from hierogram.daemon.learning.stored_links import NamedCounts, names_of, units_of

    def learned(source: Side, target: Side) -> LearnedCounts:
        names = names_of(*units_of(source, target))
        counts = NamedCounts(priors.store.aligner_counts(*names))
        known = priors.store.vocabulary_sizes()
        sizes = max(known[0], len(source.vocabulary)), max(known[1], len(target.vocabulary))
        return counts.of(names, sizes)

    return learned


class Decoder:
    """Decoder with a grammar: an export of any format of rules, a packed grammar, or a store in its current state.

    Options are those of `TranslateOptions`: `lm="english.lm", weights="weights.toml", pops=50`. If `lm` is not given,
    the language model is built from the target side of a store; `lm="none"` translates without one. May be used
    from several threads. Raises `InputError`, `UsageError`, `NothingLearnedError`, `WrongKindError`.
    """

    def __init__(
        self,
        grammar: PathLike | GrammarStore,
        *,
        options: TranslateOptions | None = None,
        **chosen: Unpack[TranslateKeywords],
    ) -> None:
        from hierogram.tools.translation.opening import Follower, equip
        from hierogram.tools.translation.options import TranslateOptions

        names = {name: str(value) if isinstance(value, Path) else value for name, value in chosen.items()}
        wanted = options_of(TranslateOptions, options, names)
        self._follower: Follower | None = None
        with silence():
            self._resources = equip(wanted)
            self._corrected = grammar.corrections.known if isinstance(grammar, GrammarStore) else None
            if isinstance(grammar, GrammarStore):
                self._follower = Follower(grammar.store, self._resources)
                self._now: Callable[[], Translator] = self._follower.refresh
            else:
                translator = self._resources.translator(self._resources.grammar(str(grammar)))
                self._now = lambda: translator
        self.translator()

    @property
    def resources(self) -> TranslationResources:
        """Options, weights, language model and glossary of the newest translator."""
        return self._resources if self._follower is None else self._follower.resources

    def translator(self) -> Translator:
        """Return a translator with the present grammar."""
        with silence():
            return self._now()

    def pack(self, path: PathLike) -> int:
        """Write the grammar as a packed file, which a `Decoder` maps into memory; return the number of rules."""
        from hierogram.tools.translation.grammars import write_grammar

        grammar = self.translator().grammar
        write_grammar(Path(path), grammar)
        return int(grammar.packed.rules)

    def texts(self) -> TextTranslator:
        """Return a translator of text with the present grammar."""
        from hierogram.tools.translation.text_translator import TextTranslator

        return TextTranslator(self.translator(), self._corrected)

    def translate(self, text: str, best: int = 1, *, format: str | None = None) -> TextTranslation:
        """Return the translation of a text, `.text`, and up to `best` translations, `.texts`, with scores, features and
        links.

        `format` is `text`, `html` or `tokens`. The default is text if the grammar's store divides text, else tokens.
        """
        text, alternatives = a_text("text", text), whole_number("best", best, 1) - 1
        markup = self.resources.options.markup
        return self.texts().translate(text, format=format, alternatives=alternatives, markup=markup)

    def translate_all(
        self, texts: Sequence[str], best: int = 1, threads: int = 0, *, format: str | None = None
    ) -> Iterator[TextTranslation]:
        """Yield the translations of texts in their order. `threads` is the number of threads; 0 means one per core."""
        markup, alternatives = self.resources.options.markup, whole_number("best", best, 1) - 1
        return self.texts().translate_all(
            texts, format=format, alternatives=alternatives, markup=markup, threads=threads
        )


class ParsedText(NamedTuple):
    """Bracketed tree of a sentence, empty for an empty sentence.

    `found` is False if a flat tree replaces a missing parse.
    """

    tree: str
    found: bool


def parse(
    sentences: PathLike | Iterable[str],
    grammar: PathLike | GrammarStore,
    *,
    options: ParseRequest | None = None,
    progress: Callable[[int], None] = lambda _: None,
    **chosen: Unpack[ParseKeywords],
) -> list[ParsedText]:
    """Parse sentences, or a file of them, with a grammar of tree fragments from a store of trees or from a file.

    Spaces separate tokens. Options are those of `ParseRequest`. `progress` is called with the number of parsed
    sentences.
    A file of fragments does not name its base distribution, so the default is `pcfg`. Raises `InputError`,
    `UsageError`,
    `WrongKindError`.
    """
    from hierogram.daemon.text.treebanks.transformations import Transformations, restored
    from hierogram.samplers.grammar.settings import PCFG
    from hierogram.tools.treebanks.approximation import approximate
    from hierogram.tools.treebanks.grammars import binarize, load_grammar, read_grammar
    from hierogram.tools.treebanks.parsing import Parser
    from hierogram.tools.treebanks.requests import ParseRequest

    request = options_of(ParseRequest, options, chosen)
    lines = _sentences(sentences)
    priors, how, base = None, Transformations(), request.base
    if isinstance(grammar, GrammarStore):
        url = grammar.store.engine.url.render_as_string(hide_password=False)
        fragments, priors, how, trained = load_grammar(url, request.current_sample)
        base = base or trained
    elif request.current_sample:
        raise UsageError(
            f"{grammar}: --current-sample requires a store, because a file has a single count for each fragment"
        )
    else:
        fragments = read_grammar(str(grammar))
    top = request.root or how.root
    how = replace(how, root=top)
    parser = Parser(
        approximate(binarize(fragments), top, priors, base=base or PCFG), top, request.draws_taken, request.seed
    )
    parsed = []
    for number, line in enumerate(lines):
        words = [word for word in line.replace("\t", " ").split(" ") if word]
        if words:
            found = parser.parse(words, number, (request.method,))
            parsed.append(ParsedText(str(restored(found.trees[request.method], how)), found.found))
        else:
            parsed.append(ParsedText("", True))
        progress(number + 1)
    return parsed
