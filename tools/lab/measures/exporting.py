"""Measure exports and SQL queries of very large grammars."""

import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sqlalchemy import text

from hierogram.daemon.exports.exporting import export
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.pair_files import PairFiles
from hierogram.samplers.grammar.columns import join_texts
from hierogram.samplers.grammar.rules import Rule, escape_terminal
from hierogram.storage.database.connection import make_engine, parse_url
from hierogram.storage.records.columns import RuleDeltas
from hierogram.storage.store import open_store
from hierogram.tools.lab.measures.results import Corpus, Figures, measure_in_process, temporary_folder
from hierogram.tools.lab.measures.sampling import read_rows

_RULES_PER_COMMIT = 100_000
_MAX_SOURCE_LENGTH, _MAX_TARGET_LENGTH = 5, 7
"""Maximum numbers of words of a phrase."""
_GAPS_PER_PHRASE = 2
"""Maximum number of rules with a gap for each phrase."""
_PLAIN = ("p_target_given_source", "p_source_given_target", "count")
_EXPORTED_FEATURES = {"cdec": _PLAIN, "cdec with lexical weights": None}
"""Features of each measured export, or None for all features."""
_WORDS = 30_000
"""Number of artificial words of each side."""
_LOOKUPS = 50
"""Number of executions of each query."""

_QUERIES = {
    "by_source_side": "SELECT * FROM rule_table WHERE source = :side ORDER BY count DESC LIMIT 20",
    "by_word": "SELECT * FROM word_rules WHERE token = :side AND side = 'source' LIMIT 20",
}


class GeneratedRule(NamedTuple):
    """Rule to store: columns of the table `rules`, with sides in rule notation."""

    source: str
    target: str
    length: int
    scope: int
    nonterminals: int
    source_terminals: int
    target_terminals: int
    uses: int
    expected_uses: float


def make_deltas(rules: Iterable[GeneratedRule]) -> RuleDeltas:
    """Return the changes of counts that add the rules to a store, at least one. A rule may repeat."""
    rules = list(rules)
    sources, targets, *numbers = zip(*rules, strict=True)
    digests = [blake2b(f"{source} ||| {target}".encode(), digest_size=16).digest() for source, target, *_ in rules]
    shape, expected = np.array(numbers[:5], np.int32), np.array(numbers[6], np.float64)
    return RuleDeltas(
        keys=np.frombuffer(b"".join(digests), ">u8").reshape(-1, 2).astype(np.uint64),
        source=join_texts(sources),
        target=join_texts(targets),
        length=shape[0],
        scope=shape[1],
        nonterminals=shape[2],
        source_terminals=shape[3],
        target_terminals=shape[4],
        hiero=np.ones(len(rules), np.bool_),
        count=np.array(numbers[5], np.int64),
        expected_uses=expected,
        expected_uses_variance=expected,
        minimal_uses=np.zeros(len(rules), np.int64),
    )


def measure_exporting(corpus: Corpus) -> Figures:
    """Measure exports of a large store, with and without lexical weights."""
    with temporary_folder() as folder:
        url = f"sqlite:///{folder}/rules.db"
        sizes = measure_in_process(partial(create_large_store, url), corpus)
        figures: Figures = {name: sizes[name] for name in ("pairs", "rules")}
        for name, features in _EXPORTED_FEATURES.items():
            options = ExportOptions(format="cdec", features=features, max_scope=None)
            figures[name] = measure_in_process(partial(_export, url, folder / "grammar.cdec", options), corpus)
    return figures


def _export(url: str, path: Path, options: ExportOptions, _: Corpus) -> Figures:
    with open_store(url) as store:
        started, used = time.perf_counter(), time.process_time()
        manifest = export(store, path, options)
        seconds, processor = time.perf_counter() - started, time.process_time() - used
    return {
        "rules": manifest.rules,
        "bytes": manifest.bytes,
        "seconds": seconds,
        "processor_seconds": processor,
        "rules_per_second": manifest.rules / seconds,
        "rules_per_processor_second": manifest.rules / processor,
    }


def create_large_store(url: str, corpus: Corpus) -> Figures:
    """Store a corpus and up to `corpus.rules` rules of its alignments. Returns their numbers."""
    counts: Counter[str] = Counter()
    rng = random.Random(corpus.seed)
    rows = read_rows(corpus)
    for row in rows:
        if len(counts) >= corpus.rules:
            break
        counts.update(_extract_rules(row.source.split(" "), row.target.split(" "), row.alignment, rng))
    rules = list(counts.items())[: corpus.rules]
    rng.shuffle(rules)
    with open_store(url, create=True) as store:
        with temporary_folder() as folder, PairFiles(corpus.files(folder)) as source:
            ingest(store, source)
        for first in range(0, len(rules), _RULES_PER_COMMIT):
            batch = []
            for sides, count in rules[first : first + _RULES_PER_COMMIT]:
                rule = Rule.parse(sides)
                source_side, target_side = sides.split(" ||| ")
                shape = rule.length, rule.scope, rule.nonterminals, rule.source_terminals, rule.target_terminals
                batch.append(GeneratedRule(source_side, target_side, *shape, count, count))
            store.commit([(None, make_deltas(batch))])
        return {"pairs": store.count_pairs(), "rules": len(rules)}


def _extract_rules(source: list[str], target: list[str], alignment: str, rng: random.Random) -> Iterator[str]:
    """Yield a pair's phrases as rules, and up to two rules per phrase with a gap for a smaller phrase."""
    links = [(int(i), int(j)) for i, j in (link.split("-") for link in alignment.split())]
    links_by_source: dict[int, list[int]] = {}
    links_by_target: dict[int, list[int]] = {}
    for i, j in links:
        links_by_source.setdefault(i, []).append(j)
        links_by_target.setdefault(j, []).append(i)
    phrases = []
    for i in range(len(source)):
        reached: set[int] = set()
        for k in range(i, min(i + _MAX_SOURCE_LENGTH, len(source))):
            reached.update(links_by_source.get(k, ()))
            if not reached:
                continue
            low, high = min(reached), max(reached)
            if high - low >= _MAX_TARGET_LENGTH:
                break
            if all(i <= s <= k for t in range(low, high + 1) for s in links_by_target.get(t, ())):
                phrases.append((i, k, low, high))
    source_words = [escape_terminal(word) for word in source]
    target_words = [escape_terminal(word) for word in target]
    for i, k, low, high in phrases:
        if "|||" in (*source_words[i : k + 1], *target_words[low : high + 1]):
            continue
        yield f"{' '.join(source_words[i : k + 1])} ||| {' '.join(target_words[low : high + 1])}"
        outer_span = (i, k, low, high)
        inner = [p for p in phrases if p != outer_span and i <= p[0] <= p[1] <= k and low <= p[2] <= p[3] <= high]
        for a, b, c, d in rng.sample(inner, min(_GAPS_PER_PHRASE, len(inner))):
            gap = ["[X,1]"]
            yield (
                f"{' '.join(source_words[i:a] + gap + source_words[b + 1 : k + 1])} ||| "
                f"{' '.join(target_words[low:c] + gap + target_words[d + 1 : high + 1])}"
            )


def _random_rule(rng: np.random.Generator) -> GeneratedRule:
    """Return a rule of one to three words per side. Word frequencies are skewed as in natural language."""
    word_ids = np.exp(rng.random(6) * np.log(_WORDS)).astype(int)
    terminals = rng.integers(1, 4, 2).tolist()
    source = " ".join(f"s{word}" for word in word_ids[: terminals[0]])
    target = " ".join(f"t{word}" for word in word_ids[3 : 3 + terminals[1]])
    count = int(min(rng.zipf(2.0), 10_000))
    return GeneratedRule(source, target, sum(terminals), 0, 0, terminals[0], terminals[1], count, count)


def measure_queries(corpus: Corpus) -> Figures:
    """Measure queries in milliseconds on SQLite, in a store of at least `corpus.rules` artificial rules."""
    rng = np.random.default_rng(corpus.seed)
    figures: Figures = {}
    with temporary_folder() as folder:
        url = f"sqlite:///{folder}/rules.db"
        with open_store(url, create=True) as store:
            while (rules := store.status().rules_in_use) < corpus.rules:
                number = min(_RULES_PER_COMMIT, corpus.rules - rules)
                store.commit([(None, make_deltas(_random_rule(rng) for _ in range(number)))])
        figures["rules"] = rules
        engine = make_engine(parse_url(url))
        with engine.connect() as connection:
            looked_up = connection.execute(
                text("SELECT source FROM rules WHERE id % :step = 0 LIMIT :lookups"),
                {"step": max(rules // _LOOKUPS, 1), "lookups": _LOOKUPS},
            ).all()
            for name, query in _QUERIES.items():
                seconds = []
                for (source,) in looked_up:
                    side = source.split(" ")[0] if name == "by_word" else source
                    started = time.perf_counter()
                    connection.execute(text(query), {"side": side}).all()
                    seconds.append(time.perf_counter() - started)
                figures[name] = {"median_ms": float(np.median(seconds)) * 1e3, "max_ms": max(seconds) * 1e3}
        engine.dispose()
    return figures
