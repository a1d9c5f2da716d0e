"""Grammars at work: extracting the heuristic one, and asking a store of many rules with SQL."""

import time

import numpy as np
from sqlalchemy import text

from hierogram.samplers.grammar.uses import ONE_USE
from hierogram.storage.database.connection import make_engine, parse_url
from hierogram.storage.store import open_store
from hierogram.tools.comparison.bitexts import Numbering, to_bitext
from hierogram.tools.extraction.runs import HeuristicGrammar
from hierogram.tools.measures.results import Corpus, Figures
from hierogram.tools.measures.rules import MadeRule, deltas_of
from hierogram.tools.measures.sampling import read_rows
from hierogram.tools.measures.stores import temporary_folder

_PAIRS_A_BITEXT = 1_000
_RULES_A_COMMIT = 100_000
_WORDS = 30_000
_ASKED = 50

_QUESTIONS = {
    "by_source_side": "SELECT * FROM rule_table WHERE source = :side ORDER BY count DESC LIMIT 20",
    "by_target_side": "SELECT * FROM rule_table WHERE target = :side ORDER BY count DESC LIMIT 20",
    "all_of_a_source_side": "SELECT * FROM by_source WHERE source = :side",
    "all_of_a_target_side": "SELECT * FROM by_target WHERE target = :side",
    "by_word": "SELECT * FROM word_rules WHERE token = :side AND side = 'source' LIMIT 20",
}


def measure_extraction(corpus: Corpus) -> Figures:
    """Pairs and rules a second of the heuristic extraction, gathering and merging, kernels compiled before."""
    rows = read_rows(corpus)
    source = Numbering(sorted({word for row in rows for word in row.source.split(" ")}))
    target = Numbering(sorted({word for row in rows for word in row.target.split(" ")}))
    bitexts = [to_bitext(rows[k : k + _PAIRS_A_BITEXT], source, target) for k in range(0, len(rows), _PAIRS_A_BITEXT)]
    with HeuristicGrammar(threads=corpus.threads) as grammar:
        grammar.add(bitexts[:1])
        for _ in grammar.blocks():
            pass
    with HeuristicGrammar(threads=corpus.threads) as grammar:
        started = time.perf_counter()
        grammar.add(bitexts)
        gathered = time.perf_counter()
        rules = extractions = 0
        for block in grammar.blocks():
            rules += len(block)
            extractions += int(block[:, grammar.shape.occurrences].sum())
        merged = time.perf_counter()
    return {
        "pairs": len(rows),
        "extractions": extractions,
        "rules": rules,
        "gathering_seconds": gathered - started,
        "merging_seconds": merged - gathered,
        "pairs_per_second": len(rows) / (merged - started),
    }


def _rule(random: np.random.Generator) -> MadeRule:
    """A rule of one to three words a side, words as unequally frequent as in a language."""
    drawn = np.exp(random.random(6) * np.log(_WORDS)).astype(int)
    terminals = random.integers(1, 4, 2).tolist()
    source = " ".join(f"s{word}" for word in drawn[: terminals[0]])
    target = " ".join(f"t{word}" for word in drawn[3 : 3 + terminals[1]])
    count = int(min(random.zipf(2.0), 10_000))
    return MadeRule(source, target, sum(terminals), 0, 0, terminals[0], terminals[1], count, count * ONE_USE)


def measure_asking(corpus: Corpus) -> Figures:
    """Milliseconds of an answer by side or word, and rules a second of whole dumps, from SQLite with many rules.

    The rules are made up, a million unless told otherwise; sides are drawn from them evenly by rule.
    """
    wanted = int(corpus.extra.get("rules", 1_000_000))
    random = np.random.default_rng(corpus.seed)
    figures: Figures = {}
    with temporary_folder() as folder:
        url = f"sqlite:///{folder}/rules.db"
        with open_store(url, create=True) as store:
            while (rules := store.status().rules) < wanted:
                store.commit(None, deltas_of(_rule(random) for _ in range(min(_RULES_A_COMMIT, wanted - rules))))
        figures["rules"] = rules
        engine = make_engine(parse_url(url))
        with engine.connect() as connection:
            asked = connection.execute(
                text("SELECT source, target FROM rules WHERE id % :step = 0 LIMIT :asked"),
                {"step": max(rules // _ASKED, 1), "asked": _ASKED},
            ).all()
            for name, question in _QUESTIONS.items():
                seconds = []
                for source, target in asked:
                    side = target if "target" in name else source.split(" ")[0] if name == "by_word" else source
                    started = time.perf_counter()
                    connection.execute(text(question), {"side": side}).all()
                    seconds.append(time.perf_counter() - started)
                figures[name] = {"median_ms": float(np.median(seconds)) * 1e3, "most_ms": max(seconds) * 1e3}
            for view in ("grammar", "averaged_grammar", "by_source"):
                started = time.perf_counter()
                dumped = sum(len(rows) for rows in connection.execute(text(f"SELECT * FROM {view}")).partitions(10_000))
                figures[f"{view}_rules_per_second"] = dumped / (time.perf_counter() - started)
        engine.dispose()
    return figures
