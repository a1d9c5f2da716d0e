"""Lexical weights of rules, from the links of the store's pairs [Koehn, Och & Marcu 2003, §3.3].

c(f, e) is the number of links between two words. A word without links counts as linked to NULL. w(e|f) = c(f, e) /
c(f). lex(e|f) is a product over the target words of a rule: the mean of w(e|f) over the word's links in the rule, or
w(e|NULL) for a word without links. It is 1 if the rule has no target words. lex(f|e) is defined in the same way.

Means and products are computed from integers (probabilities in units of 2^-50, logarithms in units of 2^-32), so they
do not depend on the order in which threads add them.
"""

from hierogram.daemon.exports.formats import is_nonterminal, symbols, word
from hierogram.daemon.exports.scratch import SIDE_COLUMNS, Blocks, Scratch
from hierogram.samplers.kernel import Report

FLOOR = 1e-7
"""Weight of a linked word pair or an unlinked word that is not in the lexicon."""

_RULES_PER_QUERY = 250_000
"""Number of rules per query of lexical weights, which limits the memory."""
_NULL = "''"
"""SQL literal of the word NULL in the columns of words."""
_WEIGHT_UNITS = 1 << 50
_LOG_UNITS = 1 << 32
"""Units of integer weights and logarithms."""


def load_lexicon(scratch: Scratch, blocks: Blocks) -> None:
    """Create the table `lexicon` (f, e, w(e|f), w(f|e)) from the links in blocks of `PAIR_COLUMNS`."""
    _count_links(scratch, blocks)
    scratch.run("""
        CREATE TABLE lexicon AS
        WITH of_f AS (SELECT f, sum(n) AS total FROM links GROUP BY f),
             of_e AS (SELECT e, sum(n) AS total FROM links GROUP BY e)
        SELECT f, e, CAST(n AS DOUBLE) / CAST(of_f.total AS DOUBLE) AS e_given_f,
               CAST(n AS DOUBLE) / CAST(of_e.total AS DOUBLE) AS f_given_e
          FROM links JOIN of_f USING (f) JOIN of_e USING (e)""")
    scratch.run("DROP TABLE links")


def load_word_pairs(scratch: Scratch, blocks: Blocks, units_per_use: int, progress: Report) -> None:
    """Create the view `rules` of all pairs of linked words, counted in units of 1/`units_per_use`."""
    _count_links(scratch, blocks, progress)
    scratch.run(f"""
        CREATE TABLE loaded AS
        SELECT f AS source, e AS target, 0 AS scope, 0 AS nonterminals, 1 AS source_terminals, 1 AS target_terminals,
               0 AS minimal_uses, CAST(n * {units_per_use} AS BIGINT) AS uses
          FROM links WHERE f <> {_NULL} AND e <> {_NULL}""")
    scratch.run("DROP TABLE links")
    scratch.run("CREATE VIEW rules AS SELECT rowid AS id, '0-0' AS alignment, * FROM loaded")


def _count_links(scratch: Scratch, blocks: Blocks, progress: Report | None = None) -> None:
    scratch.load("pairs", SIDE_COLUMNS | {"alignment": "VARCHAR"}, blocks, progress)
    scratch.run(f"""
        CREATE TABLE links AS
        WITH split AS (
            SELECT string_split(source, ' ') AS s, string_split(target, ' ') AS t,
                   {_positions(1)} AS i, {_positions(2)} AS j
              FROM pairs
        ), linked AS (
            SELECT unnest(list_transform(i, lambda x: s[x + 1])) AS f,
                   unnest(list_transform(j, lambda x: t[x + 1])) AS e
              FROM split
            UNION ALL
            SELECT unnest(list_transform({_unlinked("s", "i")}, lambda x: s[x + 1])), {_NULL} FROM split
            UNION ALL
            SELECT {_NULL}, unnest(list_transform({_unlinked("t", "j")}, lambda x: t[x + 1])) FROM split
        )
        SELECT f, e, count(*) AS n FROM linked GROUP BY f, e""")
    scratch.run("DROP TABLE pairs")


def load_lexical_weights(scratch: Scratch) -> None:
    """Create the table `lexical` (id, lex(e|f), lex(f|e)) of the rules in `kept`, from `lexicon`."""
    scratch.run(f"""
        CREATE TABLE unlinked AS
        SELECT e AS word, {_log(_units("e_given_f"), "1")} AS to_target, NULL AS to_source
          FROM lexicon WHERE f = {_NULL}
        UNION ALL
        SELECT f, NULL, {_log(_units("f_given_e"), "1")} FROM lexicon WHERE e = {_NULL}""")
    scratch.run("CREATE TABLE lexical (id BIGINT, lex_target_given_source DOUBLE, lex_source_given_target DOUBLE)")
    [last] = scratch.row("SELECT coalesce(max(id), -1) FROM kept")
    for first in range(0, last + 1, _RULES_PER_QUERY):
        _add_lexical_weights(scratch, f"id >= {first} AND id < {first + _RULES_PER_QUERY}")
    scratch.run("DROP TABLE unlinked")


def _add_lexical_weights(scratch: Scratch, condition: str) -> None:
    s, t = symbols("source"), symbols("target")
    scratch.run(f"""
        INSERT INTO lexical
        WITH part AS (
            SELECT id, source, target, alignment FROM kept WHERE {condition}
        ), linked AS (
            SELECT id, i, j, {word("s[i + 1]")} AS f, {word("t[j + 1]")} AS e FROM (
                SELECT id, {s} AS s, {t} AS t,
                       unnest({_positions(1)}) AS i, unnest({_positions(2)}) AS j
                  FROM part WHERE alignment <> ''
            )
        ), weighed AS (
            SELECT id, i, j, {_units(f"coalesce(e_given_f, {FLOOR})")} AS e_given_f,
                   {_units(f"coalesce(f_given_e, {FLOOR})")} AS f_given_e
              FROM linked LEFT JOIN lexicon USING (f, e)
        ), words AS (
            SELECT id, {_log("sum(e_given_f)", "count(*)")} AS to_target, 0 AS to_source FROM weighed GROUP BY id, j
            UNION ALL
            SELECT id, 0, {_log("sum(f_given_e)", "count(*)")} FROM weighed GROUP BY id, i
            UNION ALL
            {_without_links("target")}
            UNION ALL
            {_without_links("source")}
        )
        SELECT id, exp(CAST(sum(to_target) AS DOUBLE) / {_LOG_UNITS}),
               exp(CAST(sum(to_source) AS DOUBLE) / {_LOG_UNITS})
          FROM words GROUP BY id""")


def _without_links(side: str) -> str:
    """Return SQL for (id, log weight to target, log weight to source) of each unlinked word on a side."""
    link_field, weights = (1, "0, {}") if side == "source" else (2, "{}, 0")
    words = f"list_transform({_unlinked('side', 'linked')}, lambda x: {word('side[x + 1]')})"
    weight = f"coalesce(to_{side}, {_log(_units(str(FLOOR)), '1')})"
    return f"""
        SELECT id, {weights.format(weight)} FROM (
            SELECT id, unnest({words}) AS word
              FROM (SELECT id, {symbols(side)} AS side, {_positions(link_field)} AS linked FROM part)
        ) LEFT JOIN (SELECT * FROM unlinked WHERE to_{side} IS NOT NULL) USING (word)"""


def _positions(link_field: int) -> str:
    """Return SQL for the positions in `alignment` on a side (1 source, 2 target)."""
    return (
        "(CASE WHEN coalesce(alignment, '') = '' THEN CAST([] AS INTEGER[]) ELSE list_transform("
        f"string_split(alignment, ' '), lambda x: CAST(split_part(x, '-', {link_field}) AS INTEGER)) END)"
    )


def _unlinked(side: str, positions: str) -> str:
    """Return SQL for the positions of a side's words that are not in the list `positions`."""
    return (
        f"list_filter(CAST(range(len({side})) AS INTEGER[]), lambda x: "
        f"NOT list_contains({positions}, x) AND NOT {is_nonterminal(f'{side}[x + 1]')})"
    )


def _units(weight: str) -> str:
    return f"CAST(round({weight} * {_WEIGHT_UNITS}) AS BIGINT)"


def _log(units: str, n: str) -> str:
    """Return SQL for the logarithm (units 2^-32) of the mean of n weights, given their sum (units 2^-50)."""
    mean = f"CAST({units} AS DOUBLE) / {n} / {_WEIGHT_UNITS}"
    return f"CAST(round(ln(greatest({mean}, 1e-12)) * {_LOG_UNITS}) AS BIGINT)"
