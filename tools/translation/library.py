"""Translation, language models, tuning and evaluation for `import hierogram`.

`Decoder` holds the resources of translation. It translates text with a `TextTranslator`, which translates tokens with a
`Translator`, which decodes each part of a sentence with a `SentenceDecoder`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.library.options import PathLike, check_integer, check_text, resolve_options
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.progress import progress
from hierogram.daemon.shared_options import THREADS
from hierogram.daemon.text.inspection import text_advice
from hierogram.daemon.text.lines import check_readable, read_sentences
from hierogram.daemon.text.pipeline import TOKENS, make_pipeline
from hierogram.tools.translation.estimation import build_model
from hierogram.tools.translation.grammars import write_grammar
from hierogram.tools.translation.options import BEST, EstimationOptions, EvaluationOptions, TranslateOptions
from hierogram.tools.translation.resources import GrammarFollower, TranslationResources, load_resources
from hierogram.tools.translation.store_translator import Corrections
from hierogram.tools.translation.text_translator import TextTranslation, TextTranslator
from hierogram.tools.translation.translating import Translator, in_threads

if TYPE_CHECKING:
    from hierogram.tools.keywords import EstimationKeywords, EvaluationKeywords, TranslateKeywords
    from hierogram.tools.translation.estimation import EstimationReport
    from hierogram.tools.translation.evaluation import MetricScores

Files = PathLike | Sequence[PathLike]


def list_paths(files: Files) -> list[str]:
    """Return paths as a list of strings."""
    return [str(files)] if isinstance(files, str | Path) else [str(path) for path in files]


def read_files(files: Files) -> list[tuple[str, list[str]]]:
    """Return the path and the lines of each file. Raises `InputError`."""
    return [(path, read_sentences(path)) for path in list_paths(files)]


class Decoder:
    """Decoder with a grammar from a rule export, a packed file, or a store. Thread-safe.

    Each call uses the current grammar of a store. Options are the fields of `TranslateOptions`, such as
    `weights="weights.toml"`. Without `lm`, the language model of a store's grammar is built from the target side of the
    store. `lm="none"` translates without a language model. Raises `InputError`, `UsageError`, `NothingLearnedError`,
    `WrongKindError`.
    """

    def __init__(
        self,
        grammar: PathLike | GrammarStore,
        *,
        options: TranslateOptions | None = None,
        **chosen: Unpack[TranslateKeywords],
    ) -> None:
        values = {name: str(value) if isinstance(value, Path) else value for name, value in chosen.items()}
        resolved = resolve_options(TranslateOptions, options, values)
        self._follower: GrammarFollower | None = None
        self._resources = load_resources(resolved)
        self._find_correction = Corrections(grammar).find if isinstance(grammar, GrammarStore) else None
        if isinstance(grammar, GrammarStore):
            self._follower = GrammarFollower(grammar.store, self._resources)
            self._current: Callable[[], Translator] = self._follower.refresh
        else:
            translator = self._resources.translator(self._resources.grammar(str(grammar)))
            self._current = lambda: translator
        self.translator()

    @property
    def resources(self) -> TranslationResources:
        """Options, weights, language model and glossary of the current translator."""
        return self._resources if self._follower is None else self._follower.resources

    def translator(self) -> Translator:
        """Return a translator of tokens with the current grammar."""
        return self._current()

    def pack(self, path: PathLike) -> int:
        """Write the grammar as a packed file, which a `Decoder` maps into memory. Returns the number of rules."""
        grammar = self.translator().grammar
        write_grammar(Path(path), grammar)
        return int(grammar.packed.rules)

    def text_translator(self) -> TextTranslator:
        """Return a translator of text with the current grammar, which does not follow the store."""
        return TextTranslator(self.translator(), self._find_correction)

    def translate(self, text: str, best: int = 1, *, format: str | None = None) -> TextTranslation:
        """Translate a text. In the result, `texts` are up to `best` translations, and `text` is the first.

        If a user corrected the translation, `text` is the correction. `format` is `text`, `html` or `tokens`. The
        default is `text` if the grammar's store or the options tokenize text, else `tokens`. The result also contains
        scores, features and links.
        """
        text, best = check_text("text", text), check_integer("best", best, BEST)
        markup = self.resources.options.markup
        return self.text_translator().translate(text, format=format, best=best, markup=markup)

    def translate_all(
        self, texts: Sequence[str], best: int = 1, threads: int | None = None, *, format: str | None = None
    ) -> Iterator[TextTranslation]:
        """Return an iterator over the translations of texts, in order. By default, uses one thread per core."""
        markup, best = self.resources.options.markup, check_integer("best", best, BEST)
        threads = None if threads is None else check_integer("threads", threads, THREADS)
        translate = partial(self.text_translator().translate, format=format, best=best, markup=markup)
        return in_threads(translate, texts, threads or 0)


def lm(
    texts: Files,
    outputs: Files,
    *,
    tokenize: str | None = None,
    tokenized: bool = False,
    store: GrammarStore | None = None,
    options: EstimationOptions | None = None,
    advise: Callable[[str], None] = lambda _: None,
    **chosen: Unpack[EstimationKeywords],
) -> EstimationReport:
    """Estimate a language model from files with one sentence per line, and write it to files.

    The suffix of each output determines its format. `tokenize` is the language of the tokenizer, and `store` a store
    whose target tokenizer is used unless `tokenized`. Otherwise, text is split at spaces. Options are the fields of
    `EstimationOptions`, such as `order=5`. The vocabulary and a binary model must fit in memory. `advise` receives
    advice on text that seems badly tokenized. Raises `InputError`, `ExportError`, `UsageError`.
    """
    if tokenize is not None and (tokenized or store is not None):
        raise UsageError("--tokenize cannot be combined with --tokenized or --store")
    side = TOKENS if tokenize is None else make_pipeline({}, tokenize=(tokenize, tokenize)).source
    if store is not None and not tokenized:
        side = make_pipeline(store.settings()).target
    resolved, paths = resolve_options(EstimationOptions, options, chosen), list_paths(texts)
    check_readable(*paths)
    with progress("lm", "n-grams") as bar:
        report = build_model(paths, list(map(Path, list_paths(outputs))), resolved, bar, side)
    advice = text_advice(side, ", ".join(paths), report.beginning, "--tokenize en", "--tokenized")
    if advice is not None and not tokenized:
        advise(advice)
    return report


def evaluate(
    translations: Files,
    references: Files,
    *,
    options: EvaluationOptions | None = None,
    **chosen: Unpack[EvaluationKeywords],
) -> list[MetricScores]:
    """Evaluate files of translations by BLEU, chrF and TER, and test each later file against the first.

    Options are the fields of `EvaluationOptions`, such as `metrics=("bleu",)`. Requires the extra `evaluate`. Raises
    `InputError`, `UsageError`.
    """
    from hierogram.tools.translation.evaluation import evaluate

    outputs, reference_texts = read_files(translations), read_files(references)
    resolved = resolve_options(EvaluationOptions, options, chosen)
    with progress("evaluate", "metrics") as bar:
        return evaluate(outputs, reference_texts, resolved, bar)
