"""Exports of a large grammar: rules a second, processor time and memory, each export in a process of its own."""

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hierogram.daemon.corpora.ingest import ingest
from hierogram.daemon.corpora.inputs import Input
from hierogram.daemon.exports.exporting import export
from hierogram.daemon.exports.options import ExportOptions
from hierogram.samplers.grammar.rules import Rule, escape_terminal
from hierogram.samplers.grammar.uses import ONE_USE
from hierogram.storage.store import Store, open_store
from hierogram.tools.measures.results import Corpus, Figures, measured
from hierogram.tools.measures.rules import MadeRule, deltas_of
from hierogram.tools.measures.sampling import read_rows
from hierogram.tools.measures.stores import temporary_folder

_RULES = 1_000_000
_RULES_A_COMMIT = 100_000
_LONGEST_SOURCE, _LONGEST_TARGET = 5, 7
_GAPS_A_PHRASE = 2
_PLAIN = ("p_target_given_source", "p_source_given_target", "count")
_CASES = {
    "cdec": ("cdec", _PLAIN),
    "cdec with lexical weights": ("cdec", None),
    "moses": ("moses", None),
    "parquet": ("parquet", _PLAIN),
}


def measure_exporting(corpus: Corpus) -> Figures:
    """A store of a million rules (phrases of the corpus, and phrases with a gap), exported with zstd."""
    with temporary_folder() as folder:
        inner = replace(corpus, extra=corpus.extra | {"store": f"sqlite:///{folder}/rules.db"})
        figures = dict(measured("generate", generate, inner).figures)
        for name, (format, features) in _CASES.items():
            extra = inner.extra | {"format": format, "features": ",".join(features or ())}
            result = measured(name, _export, replace(inner, extra=extra))
            figures[name] = {**result.figures, "peak_memory_mb": round(result.peak_memory / 1e6, 1)}
    return figures


def _export(corpus: Corpus) -> Figures:
    extra = corpus.extra
    path = Path(extra["store"].removeprefix("sqlite:///")).parent / f"grammar.{extra['format']}"
    if extra["format"] != "parquet":
        path = path.with_name(path.name + ".zst")
    features = tuple(extra["features"].split(",")) if extra["features"] else None
    options = ExportOptions(format=extra["format"], features=features, max_scope=None)
    with open_store(extra["store"]) as store:
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


def generate(corpus: Corpus) -> Figures:
    """A store with the corpus's pairs and as many rules from them as are wanted."""
    wanted = int(corpus.extra.get("rules", _RULES))
    counts: Counter[str] = Counter()
    draw = random.Random(corpus.seed)
    rows = read_rows(corpus)
    for row in rows:
        if len(counts) >= wanted:
            break
        counts.update(_rules(row.source.split(" "), row.target.split(" "), row.alignment, draw))
    rules = list(counts.items())[:wanted]
    draw.shuffle(rules)
    with open_store(corpus.extra["store"], create=True) as store:
        with Input(corpus.paths) as source:
            ingest(store, source)
        for first in range(0, len(rules), _RULES_A_COMMIT):
            _commit(store, rules[first : first + _RULES_A_COMMIT])
    return {"pairs": len(rows), "rules": len(rules)}


def _commit(store: Store, rules: list[tuple[str, int]]) -> None:
    store.commit(None, deltas_of(_made(rule, count) for rule, count in rules))


def _made(text: str, count: int) -> MadeRule:
    rule = Rule.parse(text)
    source, target = text.split(" ||| ")
    return MadeRule(
        source, target, rule.length, rule.scope, rule.nonterminals, rule.source_terminals, rule.target_terminals,
        count, count * ONE_USE,
    )  # fmt: skip


def _rules(source: list[str], target: list[str], alignment: str, draw: random.Random) -> Iterator[str]:
    """Phrases of a pair, each also with one of the phrases in it as a gap."""
    links = [(int(i), int(j)) for i, j in (link.split("-") for link in alignment.split())]
    of_source: dict[int, list[int]] = {}
    of_target: dict[int, list[int]] = {}
    for i, j in links:
        of_source.setdefault(i, []).append(j)
        of_target.setdefault(j, []).append(i)
    phrases = []
    for i in range(len(source)):
        reached: set[int] = set()
        for k in range(i, min(i + _LONGEST_SOURCE, len(source))):
            reached.update(of_source.get(k, ()))
            if not reached:
                continue
            low, high = min(reached), max(reached)
            if high - low >= _LONGEST_TARGET:
                break
            if all(i <= s <= k for t in range(low, high + 1) for s in of_target.get(t, ())):
                phrases.append((i, k, low, high))
    left = [escape_terminal(word) for word in source]
    right = [escape_terminal(word) for word in target]
    for i, k, low, high in phrases:
        if "|||" in (*left[i : k + 1], *right[low : high + 1]):
            continue
        yield f"{' '.join(left[i : k + 1])} ||| {' '.join(right[low : high + 1])}"
        whole = (i, k, low, high)
        inner = [p for p in phrases if p != whole and i <= p[0] <= p[1] <= k and low <= p[2] <= p[3] <= high]
        for a, b, c, d in draw.sample(inner, min(_GAPS_A_PHRASE, len(inner))):
            gap = ["[X,1]"]
            yield (
                f"{' '.join(left[i:a] + gap + left[b + 1 : k + 1])} ||| "
                f"{' '.join(right[low:c] + gap + right[d + 1 : high + 1])}"
            )
