"""Which words of a rule are linked: the alignment inside each rule of a derivation."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.counts.deltas import ENTRY, Ledger
from hierogram.samplers.counts.table import find
from hierogram.samplers.forests.batch import Batch, State
from hierogram.samplers.forests.fragments import key_of
from hierogram.samplers.forests.views import tails_of, view_pair
from hierogram.samplers.forests.walk import begin_walk, next_rule, walk_space

SIDE_BITS = 16


class RuleLinks(NamedTuple):
    """The links inside each use of a rule, use by use.

    `entries` int64[n] the rule's entry in the ledger; use k has `links[offset[k] : offset[k + 1]]`, uint32, ascending:
    the symbol's place on the source side, shifted by `SIDE_BITS`, and that on the target side. Nonterminals count as
    symbols.
    """

    entries: NDArray[np.int64]
    offset: NDArray[np.int64]
    links: NDArray[np.uint32]


@njit
def _number_symbols(start, end, nonterminal_end, place):
    """Number the words of a side from `start` on in `place`, nonterminals counted along; forget the nonterminals."""
    position = start
    symbol = 0
    while position < end:
        if nonterminal_end[position] > position:
            after = nonterminal_end[position]
            nonterminal_end[position] = 0
            position = after
        else:
            place[position] = symbol
            position += 1
        symbol += 1


@njit
def _mark_nonterminals(v, view, stack, source_end, target_end):
    """Note where each nonterminal of the rule at v begins and ends, on both sides."""
    stack[0] = v
    depth = 1
    while depth > 0:
        depth -= 1
        first, last = tails_of(np.int64(stack[depth]), view)
        for i in range(first, last):
            t = view.tails[i]
            if view.cut[t]:
                source_end[np.int64(view.node[t]["source_start"])] = view.node[t]["source_end"]
                target_end[np.int64(view.node[t]["target_start"])] = view.node[t]["target_end"]
            else:
                stack[depth] = t
                depth += 1


@njit
def _rule_links(ledger, batch, state, chosen, work, scratch, found):
    """Write the uses of the chosen pairs' rules; returns how many there are."""
    source_end, target_end, source_place, target_place, first_link = (
        scratch[0], scratch[1], scratch[2], scratch[3], scratch[4],
    )  # fmt: skip
    bitext = batch.bitext
    taken = 0
    written = 0
    for pair in range(len(batch.pairs)):
        if not chosen[pair]:
            continue
        view = view_pair(batch, state, pair)
        last_link = bitext.link_offset[pair + 1]
        k = bitext.link_offset[pair]
        for word in range(len(view.source) - 1):
            first_link[word] = k
            while k < last_link and bitext.link_source[k] == word:
                k += 1
        first_link[len(view.source) - 1] = k
        depth = begin_walk(view, work)
        while True:
            v, depth = next_rule(view, work, depth)
            if v < 0:
                break
            high, low = key_of(work.summary, v, batch.words.key_mask)
            _mark_nonterminals(v, view, work.walk, source_end, target_end)
            start = np.int64(view.node[v]["source_start"])
            end = np.int64(view.node[v]["source_end"])
            for word in range(start, end):
                source_place[word] = -1
            _number_symbols(start, end, source_end, source_place)
            target_start = np.int64(view.node[v]["target_start"])
            _number_symbols(target_start, np.int64(view.node[v]["target_end"]), target_end, target_place)
            found.entries[taken] = np.int64(ledger.rows[find(ledger.rows, high, low), ENTRY])
            found.offset[taken] = written
            for word in range(start, end):
                if source_place[word] < 0:
                    continue
                # Where a word of a rule is linked, both are that rule's: every phrase is closed under links.
                for k in range(first_link[word], first_link[word + 1]):
                    found.links[written] = (source_place[word] << SIDE_BITS) + target_place[
                        np.int64(bitext.link_target[k])
                    ]
                    written += 1
            taken += 1
    found.offset[taken] = written
    return taken


def rule_links(ledger: Ledger, batch: Batch, state: State, chosen: NDArray[np.bool_] | None = None) -> RuleLinks:
    """The links inside every rule of the chosen pairs' derivations (all, if None), which the ledger has all entered.

    The links of each pair are sorted, as in canonical Pharaoh lines.
    """
    if chosen is None:
        chosen = np.ones(batch.size, np.bool_)
    bitext = batch.bitext
    longest = int(max(np.diff(bitext.source_offset).max(initial=0), np.diff(bitext.target_offset).max(initial=0)))
    most = int(batch.derivation_rules[-1])
    found = RuleLinks(
        np.empty(most, np.int64), np.zeros(most + 1, np.int64), np.empty(len(bitext.link_source), np.uint32)
    )
    scratch = np.zeros((5, longest + 2), np.int64)
    taken = _rule_links(ledger, batch, state, chosen, walk_space(batch), scratch, found)
    return RuleLinks(found.entries[:taken], found.offset[: taken + 1], found.links[: found.offset[taken]])
