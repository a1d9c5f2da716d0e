"""Translation grammars, packed from the rules of a file or store, or memory-mapped from a binary file."""

import json
import math
import re
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import regex
from numpy.typing import NDArray

from hierogram.daemon.exceptions import InputError, NothingLearnedError, WrongKindError
from hierogram.daemon.exports.exporting import ReadPosition, resolve_plan, score_new_rules, score_rules
from hierogram.daemon.exports.formats import format_from_name
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.exports.scratch import Scratch, open_scratch
from hierogram.daemon.memory import trim_malloc
from hierogram.daemon.progress import Progress
from hierogram.daemon.text.pipeline import UNCHANGED_TEXT, TextPipeline, make_pipeline
from hierogram.samplers.decoding.grammar import PackedGrammar, is_usable, pack, scopes
from hierogram.samplers.grammar.columns import join_texts, split_lines
from hierogram.samplers.grammar.kinds import LINKS, TRANSLATION, GrammarKind, find_grammar_kind
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.records.parts import join_parts
from hierogram.storage.store import Store
from hierogram.tools.translation.casing import (
    NO_CASING,
    SENTENCE_BREAKS,
    Casing,
    default_casing,
    learn_casing,
    learn_rule_casing,
)
from hierogram.tools.translation.language_models import has_kind, read_arrays, write_arrays
from hierogram.tools.translation.rule_files import RuleReader, TranslationRules, read_rule_file


def read_weights(path: str) -> dict[str, float]:
    """Return the table `weights` of a TOML file. Raises `InputError` if the file or the table is invalid."""
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as TOML: {error}") from error
    weights = content.get("weights")
    if not isinstance(weights, dict) or not weights:
        raise InputError(f"{path}: table [weights] not found")
    for name, value in weights.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise InputError(f"{path}: the weight of {name} must be a number, got {value!r}")
    return {name: float(value) for name, value in weights.items()}


def toml_table(title: str, values: Mapping[str, Any]) -> list[str]:
    """Return the lines of a TOML table with a `[title]` line, and an empty last line. Omits None values."""
    # JSON numbers, strings and lists are valid TOML.
    dump = partial(json.dumps, ensure_ascii=False)
    lines = [title]
    for name, value in values.items():
        plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
        if value is not None:
            lines.append(f"{name if plain else dump(name)} = {dump(value)}")
    return [*lines, ""]


_KIND, _VERSION = "grammar", 9
_TEXTS = ("source_words", "target_words")
"""Fields of `TranslationGrammar` that a packed grammar file stores as texts, one word per line."""
_NUMBERS = ("circular", "wide", "group_size", "length_ratio")
"""Fields of `TranslationGrammar` that a packed grammar file stores as numbers."""
_FORMAT = "parquet"
"""Export format that determines the features of a store's grammar."""
_SAMPLED_PAIRS = 100_000
"""Number of pairs for casing, `group_size` and `length_ratio`, rounded up to whole blocks."""
_LENGTHENED_SIZES = range(500, 15_001)
"""Range of store sizes, in pairs, for which short translations are lengthened."""
_GROUP_QUANTILE = 0.9
"""`group_size` is this quantile of the number of sentences per pair."""
_SENTENCE_END, _AFTER_LAST_WORD = regex.compile(r" [\p{STerm}…]+(?= )"), re.compile(r"[\W_]+\Z")
"""Token that ends a sentence before another token, and the characters after the last word of a line."""
_MAX_LINKED_RULES = 1_000
"""Number of rules above which the links of a word are counted in a sample of its rules."""
_MEMORY = 1 << 30


@dataclass(frozen=True)
class TranslationGrammar:
    """Packed grammar with vocabularies, feature names and casing.

    `circular` is the number of omitted rules with a source side that is empty or a single nonterminal, `wide` the
    number of other rules that were omitted because of their scope. `pipeline` is the pipeline of the grammar's store.
    `group_size` is the number of sentences to translate together. `length_ratio` is the number of target letters per
    source letter if the decoder must lengthen short translations, otherwise 0.
    """

    packed: PackedGrammar
    source_words: list[str]
    target_words: list[str]
    features: tuple[str, ...]
    circular: int = 0
    wide: int = 0
    pipeline: TextPipeline = UNCHANGED_TEXT
    source_casing: Casing = NO_CASING
    target_casing: Casing = NO_CASING
    group_size: int = 1
    length_ratio: float = 0.0
    _linked_words: dict[int, tuple[str, ...] | None] = field(init=False, default_factory=dict, repr=False)

    @cached_property
    def source_numbers(self) -> dict[str, int]:
        """Source word numbers by word."""
        return {word: number for number, word in enumerate(self.source_words)}

    @cached_property
    def target_numbers(self) -> dict[str, int]:
        """Target word numbers by word."""
        return {word: number for number, word in enumerate(self.target_words)}

    @cached_property
    def standalone(self) -> set[int]:
        """Numbers of the source words that are the whole source side of a rule."""
        first = self.packed.rule_first
        top = int(self.packed.child_first[1])
        return set(self.packed.symbol[:top][first[1 : top + 1] < first[2 : top + 2]].tolist())

    def linked_words(self, number: int) -> tuple[str, ...] | None:
        """Return the target word most often linked to a source word in rules, or () if mostly unlinked.

        Returns None if no rule with links contains the word.
        """
        if number not in self._linked_words:
            counts: Counter[tuple[str, ...]] = Counter()
            rules = self.packed.rules_with(number)
            for rule in rules[:: 1 + len(rules) // _MAX_LINKED_RULES]:
                target, links = self.packed.target_side(rule), self.packed.rule_links(rule)
                for position, symbol in enumerate(self.packed.source_side(rule)) if links else ():
                    if symbol == number:
                        linked: list[tuple[str, ...]] = [
                            (self.target_words[target[j]],) for i, j in links if i == position
                        ]
                        counts.update(linked or [()])
            self._linked_words[number] = max(counts, key=lambda words: (counts[words], words), default=None)
        return self._linked_words[number]


def pack_grammar(table: TranslationRules, max_scope: float, **attributes: Any) -> TranslationGrammar:
    """Return the packed grammar of rules up to a maximum scope. `attributes` are fields of the result."""
    usable = is_usable(table.columns)
    narrow = scopes(table.columns) <= max_scope
    packed, circular, wide = pack(table.columns, usable & narrow), int((~usable).sum()), int((usable & ~narrow).sum())
    words = table.source_words, table.target_words
    return TranslationGrammar(packed, *words, table.features, circular, wide, **attributes)


def open_grammar(path: str, max_scope: int, bar: Progress, format: str | None = None) -> TranslationGrammar:
    """Open a packed grammar, or the rules of a file or export up to `max_scope`. Raises `InputError`."""
    if has_kind(path, _KIND):
        return read_grammar(path)
    table, settings = read_rule_file(Path(path), bar, format)
    pipeline = make_pipeline(settings)
    source_casing, target_casing = _casings_of_rules(table, pipeline)
    return pack_grammar(table, max_scope, pipeline=pipeline, source_casing=source_casing, target_casing=target_casing)


def _casings_of_rules(table: TranslationRules, pipeline: TextPipeline) -> tuple[Casing, Casing]:
    """Learn the casing of both sides. A word after a word that cannot end a sentence is mid-sentence."""
    languages = pipeline.languages or (None, None)
    if pipeline.lower or pipeline.word_parts:
        return default_casing(languages[0]), default_casing(languages[1])
    rules = table.columns
    casings = []
    for words, symbols, start, language in (
        (table.source_words, rules.source, rules.source_start, languages[0]),
        (table.target_words, rules.target, rules.target_start, languages[1]),
    ):
        follows = np.ones(len(symbols), bool)
        follows[start[:-1][start[:-1] < start[1:]]] = False
        begins = np.array([word[-1:] in SENTENCE_BREAKS for word in words], bool)
        before = np.roll(symbols, 1)
        follows &= (symbols >= 0) & ~((before >= 0) & begins[np.maximum(before, 0)])
        within = np.bincount(symbols[follows], minlength=len(words))
        casings.append(learn_rule_casing(words, within.tolist(), language))
    return casings[0], casings[1]


def is_grammar(path: str) -> bool:
    """Check if a path is a folder, a packed grammar, or has the suffix of an export format."""
    return Path(path).is_dir() or has_kind(path, _KIND) or format_from_name(path) is not None


def write_grammar(path: Path, grammar: TranslationGrammar) -> None:
    """Write a packed grammar file, which replaces an existing file. Raises `ExportError` if that fails."""
    arrays: dict[str, NDArray[np.generic]] = dict(grammar.packed._asdict())
    for name in _TEXTS:
        arrays[name] = join_texts(getattr(grammar, name)).content
    values = {
        "features": list(grammar.features),
        "pipeline": grammar.pipeline.as_settings(),
        "casings": [asdict(grammar.source_casing), asdict(grammar.target_casing)],
        **{name: getattr(grammar, name) for name in _NUMBERS},
    }
    write_arrays(path, _KIND, _VERSION, values, arrays)


def read_grammar(path: str) -> TranslationGrammar:
    """Map a packed grammar file into memory. Raises `InputError` if it is damaged or not a packed grammar."""
    values, arrays = read_arrays(path, _KIND, _VERSION)
    try:
        grammar = PackedGrammar(**{name: arrays[name] for name in PackedGrammar._fields})
        source, target = (split_lines(arrays[name].tobytes()).strings() for name in _TEXTS)
        source_casing, target_casing = (
            Casing(**{**plain, "forms": {small: tuple(forms) for small, forms in plain["forms"].items()}})
            for plain in values["casings"]
        )
        return TranslationGrammar(
            grammar, source, target, tuple(values["features"]), pipeline=make_pipeline(values["pipeline"]),
            source_casing=source_casing, target_casing=target_casing, **{name: values[name] for name in _NUMBERS},
        )  # fmt: skip
    except KeyError as error:
        raise InputError(f"{path}: damaged, {error} not found: create the file again") from error


def translation_kind(store: Store) -> GrammarKind:
    """Return the kind of a store's grammar. Raises `WrongKindError` if its rules do not have two sides."""
    grammar_kind = find_grammar_kind(store.settings().grammar)
    if TRANSLATION not in grammar_kind.capabilities:
        raise WrongKindError(f"{store.url}: {grammar_kind.cannot('translate')}: its rules do not have two sides")
    return grammar_kind


class StoreGrammar:
    """Grammar of a store, with counts, filters and features from the export options. Not thread-safe.

    Raises `WrongKindError` if the store's rules do not have two sides, `NothingLearnedError` if the store has no rules,
    and `InputError` if no rules are left after filtering.
    """

    grammar: TranslationGrammar
    position: int
    """Store position at the time of the full read. `add_new_pairs` does not change it."""

    def __init__(self, store: Store, options: ExportOptions, bar: Progress) -> None:
        grammar_kind = translation_kind(store)
        self.grows = LINKS in grammar_kind.capabilities
        """True if rules of new pairs can be added, which requires a kind of grammar with word links."""
        self._store = store
        self._plan = replace(
            resolve_plan(replace(options, format=_FORMAT), grammar_kind), nonempty_sides=not self.grows
        )
        self._feature_names = tuple(feature.name for feature in self._plan.features)
        self._reader = RuleReader(f"the rules of {store.url}", _FORMAT, self._feature_names)
        # Values of the features, float64[rules, features].
        self._values = np.zeros((0, len(self._feature_names)))
        with self._scratch() as (snapshot, database):
            if not snapshot.state().rules_in_use:
                raise NothingLearnedError(store.url)

            def report(what: str, done: int, total: int | None) -> None:
                bar.update(done, total, done, unit="rules" if what == "read" else "pairs")

            score_rules(database, snapshot, self._plan, report)
            trim_malloc()
            seen = self._append_rules(database, "scored")
            if not self._reader.rules:
                raise InputError("no rules left after filtering: relax the filters")
            self._attributes = _learn_text_attributes(snapshot)
            self.position = snapshot.state().position
            self._since = ReadPosition(*snapshot.newest(), seen)
        # Pack after the scratch database is closed, so that its memory is free.
        self.grammar = self._pack()

    def add_new_pairs(self) -> bool:
        """Add the rules of pairs since the last read. Returns True if rules were added."""
        if not self.grows:
            return False
        with self._scratch() as (snapshot, database):
            newest = snapshot.newest()
            if not score_new_rules(database, snapshot, self._plan, self._since):
                return False
            before = self._reader.rules
            seen = self._append_rules(database, "scored SEMI JOIN fresh USING (source, target)")
            self._since = ReadPosition(*newest, seen or self._since.all_seen)
        if self._reader.rules == before:
            return False
        self.grammar = self._pack()
        return True

    def _pack(self) -> TranslationGrammar:
        # No maximum scope is needed, because the filters of the plan have removed rules of a larger scope.
        return pack_grammar(self._reader.table(self._values), math.inf, **self._attributes)

    @contextmanager
    def _scratch(self) -> Iterator[tuple[Snapshot, Scratch]]:
        with (
            self._store.snapshot() as snapshot,
            tempfile.TemporaryDirectory(prefix="hierogram-") as folder,
            open_scratch(Path(folder), _MEMORY) as database,
        ):
            yield snapshot, database

    def _append_rules(self, database: Scratch, from_clause: str) -> float:
        """Append the rules of a FROM clause. Returns their common value of `all_seen`, or 0 without rules."""
        columns = ", ".join(("source", "target", "alignment", "all_seen", *self._feature_names))
        query = "SELECT concat_ws('\t', source, target, alignment, '') FROM sorted"
        database.run("SET preserve_insertion_order = true")
        database.run(f"CREATE TABLE sorted AS SELECT {columns} FROM {from_clause} ORDER BY source, target")
        for _ in self._reader.read(database.byte_blocks(query)):
            pass
        self._values = np.concatenate([self._values, database.numeric_columns("sorted", self._feature_names)])
        return float(database.numeric_columns("sorted", ["all_seen"]).max(initial=0.0))


def _learn_text_attributes(snapshot: Snapshot) -> dict[str, Any]:
    """Return the fields of `TranslationGrammar` that depend on the settings and first pairs of a store."""
    pipeline = make_pipeline(snapshot.settings())
    sources: list[str] = []
    targets: list[str] = []
    for _, lines in snapshot.pair_blocks(columns=("source", "target")):
        sources += map(join_parts, lines[0].split("\n"))
        targets += map(join_parts, lines[1].split("\n"))
        if len(sources) > _SAMPLED_PAIRS:
            break
    source_casing, target_casing = (
        default_casing(language) if pipeline.lower else learn_casing(lines, language)
        for lines, language in zip((sources, targets), pipeline.languages or (None, None), strict=True)
    )
    sentences = [1 + len(_SENTENCE_END.findall(_AFTER_LAST_WORD.sub("", line))) for line in sources]
    letters, target_letters = (len("".join(lines).replace(" ", "")) for lines in (sources, targets))
    # Lengthen short translations only in small stores that tokenize text, because it lowers BLEU in other stores
    # (docs/decisions/decoding.md).
    lengthens = pipeline.rules is not None and len(sources) in _LENGTHENED_SIZES
    return {
        "pipeline": pipeline,
        "source_casing": source_casing,
        "target_casing": target_casing,
        "group_size": int(np.quantile(sentences, _GROUP_QUANTILE, method="inverted_cdf")),
        "length_ratio": target_letters / letters if lengthens else 0.0,
    }
