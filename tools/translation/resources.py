"""Resources of translators: grammar, weights, language model and glossary."""

import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from shutil import copyfileobj
from typing import NamedTuple

from hierogram.daemon.exceptions import DaemonError, InputError, UsageError
from hierogram.daemon.exports.formats import DEFAULT_WEIGHTS, GLUE, UNKNOWN, WORDS
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.files import atomic_write, cache_folder
from hierogram.daemon.progress import Progress, progress
from hierogram.daemon.text.lines import numbered_lines
from hierogram.daemon.text.pipeline import UNCHANGED_TEXT, TextPipeline, TextSide, make_pipeline, two_languages
from hierogram.storage.exceptions import StoreError
from hierogram.storage.records.pairs import DERIVED
from hierogram.storage.store import Store
from hierogram.tools.translation.estimation import build_model
from hierogram.tools.translation.fixed_words import Glossary, read_glossary
from hierogram.tools.translation.grammars import StoreGrammar, TranslationGrammar, open_grammar, read_weights
from hierogram.tools.translation.language_models import ModelWithVocabulary, open_language_model
from hierogram.tools.translation.options import NO_MODEL, EstimationOptions, TranslateOptions
from hierogram.tools.translation.translating import Translator

MAX_PAIRS = 200_000
"""Maximum number of pairs of a store from which its language model is built."""
STORE_MODEL_OPTIONS = EstimationOptions(order=5)
"""Options of a store's language model. 5-grams have higher BLEU than 3-grams (docs/performance.md)."""
_STEP = 1.1
_KEPT_FILES = 8

_log = logging.getLogger(__name__)


class StoreModel(NamedTuple):
    """Language model of a store, the number of its sentences from the store, and the digest of its text."""

    model: ModelWithVocabulary
    sentences: int
    digest: str


class MonolingualText(NamedTuple):
    """Folder of text in the target language, one sentence per line, and the tokenizer of this text."""

    folder: Path
    side: TextSide

    def files(self) -> list[Path]:
        """Return the paths of files in the folder and its subfolders, relative to the folder and sorted.

        Hidden files and folders are ignored. Raises `InputError` if no files remain.
        """
        paths = [path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file()]
        visible = sorted(path for path in paths if not any(part.startswith(".") for part in path.parts))
        if not visible:
            raise InputError(f"{self.folder}: no files found: add files of text in the target language")
        return visible


def count_model_pairs(pairs: int) -> int:
    """Return the number of a store's pairs used for its language model. It grows in steps of 10 %."""
    pairs_used = following = min(pairs, 1)
    while following <= min(pairs, MAX_PAIRS):
        pairs_used, following = following, max(following + 1, int(following * _STEP))
    return pairs_used


def load_store_model(
    store: Store, bar: Progress, previous: StoreModel | None = None, more: MonolingualText | None = None
) -> StoreModel | None:
    """Load or build the model of a store's target side and of `more` text.

    Returns `previous` if both texts are unchanged. Models are cached by a digest of the target sides of the first
    `count_model_pairs` pairs, so that a growing store rarely needs a new model, and of the names, sizes and times of
    the files of `more`. If no model can be built, returns `previous`, or raises `InputError` if this is None and `more`
    is invalid.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="hierogram-") as folder:
            text = Path(folder, "target")
            files = [] if more is None else more.files()
            sentences, digest = _write_text(store, text, more, files)
            if previous is not None and previous.digest == digest:
                return previous
            if not sentences and not files:
                return None
            path = cache_folder() / "language-models" / f"{digest}.lm"
            model = None
            # Ignore a damaged file, which is then replaced.
            with suppress(InputError, OSError):
                if path.is_file():
                    model = open_language_model(str(path), bar)
                    os.utime(path)
            if model is None:
                if more is not None:
                    _append_text(text, more, files)
                model = _build(text, path, bar)
    except (DaemonError, OSError) as error:
        if more is not None and previous is None and isinstance(error, InputError):
            raise
        _log.warning("cannot build a language model of the target side of the store: %s", error)
        return previous
    used = "" if more is None else f" and the text in {more.folder}"
    _log.info("using a language model of %s target sentences of the store%s", f"{sentences:,}", used)
    return StoreModel(model, sentences, digest)


def _write_text(store: Store, path: Path, more: MonolingualText | None, files: Sequence[Path]) -> tuple[int, str]:
    """Write a store's target sides. Returns their number, and the digest of them and of `files`."""
    digest = blake2b(f"4 {STORE_MODEL_OPTIONS}\n".encode(), digest_size=16)
    sentences = 0
    with store.snapshot() as snapshot, path.open("wb") as file:
        for line in snapshot.target_sides(count_model_pairs(sum(snapshot.state().pairs().values()))):
            if data := _model_line(line.encode()):
                digest.update(data)
                file.write(data)
                sentences += 1
    if more is None:
        return sentences, digest.hexdigest()
    digest.update(repr(more.side).encode())
    for found in files:
        status = (more.folder / found).stat()
        digest.update(f"{found} {status.st_size} {status.st_mtime_ns}\n".encode())
    return sentences, digest.hexdigest()


def _append_text(path: Path, more: MonolingualText, files: Sequence[Path]) -> None:
    """Append the tokenized sentences of files to a text, except sentences that the text already contains.

    Repeated sentences would distort the discounts, for example if a file contains the corpus of the store.
    """
    with path.open("rb") as file:
        seen = set(map(hash, file))
    with path.open("ab") as file:
        for found in files:
            for name, number, line in numbered_lines(str(more.folder / found)):
                tokens = more.side.tokenize_bytes(line)
                try:
                    tokens.decode()
                except UnicodeDecodeError as error:
                    problem = f"not UTF-8 ({error.reason}): convert the file first"
                    raise InputError(f"{name}, line {number}: {problem}") from error
                data = _model_line(tokens)
                if data and hash(data) not in seen:
                    seen.add(hash(data))
                    file.write(data)


def _model_line(tokens: bytes) -> bytes:
    """Return a line of a model's text, or b"" for an empty line, and for `<s>` and `</s>`."""
    return b"" if not tokens or b"<s>" in tokens or b"</s>" in tokens else tokens + b"\n"


def _build(text: Path, path: Path, bar: Progress) -> ModelWithVocabulary:
    model = text.with_suffix(".lm")
    build_model([str(text)], [model], STORE_MODEL_OPTIONS, bar)
    with suppress(InputError, OSError):
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with model.open("rb") as source, atomic_write(path) as cached:
            copyfileobj(source, cached)
        files = sorted(path.parent.glob("*.lm"), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in files[_KEPT_FILES:]:
            file.unlink(missing_ok=True)
        return open_language_model(str(path), bar)
    # The file remains mapped into memory after it is deleted.
    return open_language_model(str(model), bar)


WEIGHTS_WITHOUT_MODEL = {
    "p_target_given_source": 0.25, "p_source_given_target": 0.2,
    "lex_target_given_source": 0.15, "lex_source_given_target": 0.1,
    WORDS: 0.3, GLUE: -0.1, UNKNOWN: -5.0,
}  # fmt: skip
"""Default weights without a language model. `DEFAULT_WEIGHTS` would make translations too long."""


@dataclass(frozen=True)
class TranslationResources:
    """Resources of a translator except the grammar. `store_model` is set if `model` is built from a store.

    `lm_folder` is the folder of text that the option `lm` names, if any.
    """

    options: TranslateOptions
    weights: dict[str, float]
    model: ModelWithVocabulary | None
    glossary: Glossary
    lm_folder: Path | None = None
    store_model: StoreModel | None = None

    def pipeline(self, grammar: TranslationGrammar) -> TextPipeline:
        """Return the pipeline that tokenizes into whole words, from the options or else the grammar's store."""
        return self._chosen_pipeline(grammar.pipeline.with_whole_words())

    def _chosen_pipeline(self, own: TextPipeline) -> TextPipeline:
        options = self.options
        if options.tokenized:
            return UNCHANGED_TEXT
        if options.tokenize is None:
            return own
        return make_pipeline(own.as_settings(), tokenize=two_languages(options.tokenize, "--tokenize"))

    def start_weights(self) -> dict[str, float]:
        """Return the weights from the options, else the default weights with or without a language model."""
        return WEIGHTS_WITHOUT_MODEL if self.options.weights is None and self.model is None else self.weights

    def translator(self, grammar: TranslationGrammar, weights: dict[str, float] | None = None) -> Translator:
        """Return a translator with a grammar. `weights` replace the starting weights."""
        options, pipeline = self.options, self.pipeline(grammar)
        return Translator(
            grammar,
            self.start_weights() if weights is None else weights,
            self.model,
            pops=options.pops,
            oov_similarity=options.oov_similarity,
            lengthen=weights is None and options.weights is None,
            glossary=self.glossary.tokenized_by(pipeline),
            pipeline=pipeline,
        )

    def grammar(self, path: str) -> TranslationGrammar:
        """Return the grammar of a file. Raises `InputError`, and `UsageError` if --lm is a folder."""
        if self.lm_folder is not None:
            raise UsageError(
                f"--lm {self.options.lm}: a folder of text requires a store instead of a grammar file: estimate a "
                "model of the text with `hierogram lm`, and pass its file"
            )
        with progress("read the grammar", "rules") as bar:
            return open_grammar(path, self.options.max_scope, bar, self.options.format)

    def read_store_grammar(self, store: Store) -> StoreGrammar:
        """Return the current grammar of a store."""
        options = self.options
        export_options = ExportOptions(
            posterior_mean=options.posterior_mean, current_sample=options.current_sample, min_count=options.min_count,
            max_scope=options.max_scope,
        )  # fmt: skip
        with progress("read the grammar", "rules") as bar:
            return StoreGrammar(store, export_options, bar)

    def with_store_model(self, store: Store) -> "TranslationResources":
        """Return these resources with a store's language model, unless `lm` is a model file or `none`.

        If `lm` is a folder, the model includes its text. Raises `InputError` if this text is invalid and these
        resources have no model yet.
        """
        folder = self.lm_folder
        if folder is None and self.options.lm is not None:
            return self
        more = None
        if folder is not None:
            own = make_pipeline(store.settings()).with_whole_words()
            more = MonolingualText(folder, self._chosen_pipeline(own).target)
        with progress("build the language model", "n-grams") as bar:
            store_model = load_store_model(store, bar, self.store_model, more)
        return replace(self, model=None if store_model is None else store_model.model, store_model=store_model)

    def model_name(self) -> str:
        """Return the model's display name: its text if it is built from a store, its file, or `none`."""
        if self.store_model is None:
            return NO_MODEL if self.options.lm is None or self.lm_folder is not None else self.options.lm
        more = "" if self.lm_folder is None else f" and the text in {self.lm_folder}"
        return f"{self.store_model.sentences:,} target sentences of the store{more}"


def load_resources(options: TranslateOptions) -> TranslationResources:
    """Load the resources that the options name. Raises `InputError` if a file cannot be read."""
    weights = dict(DEFAULT_WEIGHTS) if options.weights is None else read_weights(options.weights)
    glossary = Glossary() if options.glossary is None else read_glossary(options.glossary)
    if options.lm in (None, NO_MODEL):
        return TranslationResources(options, weights, None, glossary)
    if Path(options.lm).is_dir():
        return TranslationResources(options, weights, None, glossary, Path(options.lm))
    with progress("read the language model", "n-grams") as bar:
        model = open_language_model(options.lm, bar)
    return TranslationResources(options, weights, model, glossary)


POLL_SECONDS = 0.25
"""Minimum interval in seconds between checks of the store for changes."""
_PAUSE_FACTOR = 9.0
"""Pause after a full read of the grammar, as a multiple of the reading time."""
_SHORT_PAUSE_FACTOR = 1.0
"""`_PAUSE_FACTOR` if the number of pairs with derivations has changed since the read."""
_MAX_NEW_PAIRS = 1_000
"""Maximum number of new pairs whose rules are added. With more new pairs, the whole grammar is read."""


class GrammarFollower:
    """Translator that follows the newest grammar of a store. Thread-safe.

    The first grammar is read on first use. If the store changes later, rules of new pairs are added at once, and the
    whole grammar is reread after a pause. `newest` starts both in background threads and returns the previous grammar,
    which remains in use if reading fails. `refresh` waits for the new grammar.
    """

    _newest: tuple[Translator, int]

    def __init__(self, store: Store, resources: TranslationResources) -> None:
        self._store = store
        self.resources = resources
        self._lock = threading.Lock()
        self._first = threading.Lock()
        self._showing = threading.Lock()
        self._store_grammar: StoreGrammar | None = None
        self._derived = 0
        self._next_check = self._pause_until = self._short_pause_until = 0.0
        self._threads: dict[str, threading.Thread] = {}

    def newest(self) -> tuple[Translator, int]:
        """Return the current translator, and the store position of its grammar's last full read."""
        with self._first:
            if self._store_grammar is None:
                self._read_whole()
        self._check_store()
        return self._newest

    def refresh(self) -> Translator:
        """Return a translator with the store's current grammar. Blocks during reading."""
        with self._first:
            if self._store_grammar is None or self._store.position() != self._newest[1]:
                self._read_whole()
        return self._newest[0]

    def _check_store(self) -> None:
        now = time.monotonic()
        with self._lock:
            if now < self._next_check:
                return
            self._next_check = now + POLL_SECONDS
            try:
                if self._store.position() == self._newest[1]:
                    return
                new = self._store.count_pairs(DERIVED) - self._derived
            except StoreError:
                return
            assert self._store_grammar is not None
            if self._store_grammar.grows and 0 < new <= _MAX_NEW_PAIRS:
                self._start("add-new-pairs", self._add_new_pairs)
            elif now >= (self._short_pause_until if new else self._pause_until):
                self._start("read-grammar", self._read_whole)

    def _start(self, name: str, work: Callable[[], None]) -> None:

        def run() -> None:
            try:
                work()
            except (DaemonError, StoreError) as error:
                _log.warning("cannot read the grammar of the store again: %s", error)

        if name not in self._threads or not self._threads[name].is_alive():
            self._threads[name] = threading.Thread(target=run, name=name, daemon=True)
            self._threads[name].start()

    def _add_new_pairs(self) -> None:
        store_grammar, derived = self._store_grammar, self._store.count_pairs(DERIVED)
        assert store_grammar is not None
        if self._add_rules(store_grammar):
            self._show(store_grammar, derived, instead_of=store_grammar)
        elif store_grammar.grows:
            self._derived = derived

    def _add_rules(self, store_grammar: StoreGrammar) -> bool:
        """Add rules of new pairs. Returns True if any were added. A failure stops additions until a full read."""
        try:
            return store_grammar.add_new_pairs()
        except (DaemonError, StoreError):
            store_grammar.grows = False
            return False

    def _read_whole(self) -> None:
        started = time.monotonic()
        try:
            # Read the language model first, because its text can be invalid.
            self.resources = self.resources.with_store_model(self._store)
            store_grammar = self.resources.read_store_grammar(self._store)
            derived = self._store.count_pairs(DERIVED)
            # Add pairs that arrived during the read.
            self._add_rules(store_grammar)
            self._show(store_grammar, derived)
        finally:
            ended = time.monotonic()
            self._pause_until = ended + _PAUSE_FACTOR * (ended - started)
            self._short_pause_until = ended + _SHORT_PAUSE_FACTOR * (ended - started)

    def _show(self, store_grammar: StoreGrammar, derived: int, instead_of: StoreGrammar | None = None) -> None:
        """Switch to a newly read grammar, unless `instead_of` is given and no longer the current grammar."""
        translator = self.resources.translator(store_grammar.grammar)
        with self._showing:
            if instead_of in (None, self._store_grammar):
                self._store_grammar, self._derived = store_grammar, derived
                self._newest = translator, store_grammar.position
