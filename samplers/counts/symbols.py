"""The symbols of one rule of a derivation, written out: words, nonterminals and the labels of trees as numbers."""

import numpy as np

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.forests.forest import NO_TAIL
from hierogram.samplers.forests.views import tails_of
from hierogram.samplers.grammar.symbols import LABEL_STEP, OPEN_LABEL


@njit
def source_symbols(v, view, words, symbols, position, space):
    """Write the source side of the rule at v, and number its nonterminals in `space.numbers`; position, nonterminals.

    `space` is a `hierogram.samplers.counts.deltas.CountingSpace`.
    """
    numbers, stack, stack_tail, stack_position = space.numbers, space.stacks[0], space.stacks[1], space.stacks[2]
    count = 0
    depth = 1
    stack[0] = v
    stack_tail[0] = 0
    stack_position[0] = view.node[v]["source_start"]
    if view.node[v]["label"] != 0:
        symbols[position] = OPEN_LABEL - 2 * np.int64(view.node[v]["label"])
        position += 1
    while depth > 0:
        x = stack[depth - 1]
        i = stack_tail[depth - 1]
        first, last = tails_of(x, view)
        t = view.tails[first + i] if first + i < last else np.uint16(NO_TAIL)
        until = view.node[x]["source_end"] if t == NO_TAIL else view.node[t]["source_start"]
        for w in range(stack_position[depth - 1], until):
            symbols[position] = words[w]
            position += 1
        if t == NO_TAIL:
            if view.node[x]["label"] != 0:
                symbols[position] = OPEN_LABEL - 2 * np.int64(view.node[x]["label"]) - 1
                position += 1
            depth -= 1
            continue
        stack_tail[depth - 1] = i + 1
        stack_position[depth - 1] = view.node[t]["source_end"]
        if view.cut[t]:
            count += 1
            numbers[t] = count
            symbols[position] = -(count + LABEL_STEP * np.int64(view.node[t]["label"]))
            position += 1
        else:
            stack[depth] = t
            stack_tail[depth] = 0
            stack_position[depth] = view.node[t]["source_start"]
            depth += 1
            if view.node[t]["label"] != 0:
                symbols[position] = OPEN_LABEL - 2 * np.int64(view.node[t]["label"])
                position += 1
    return position, count


@njit
def target_symbols(v, view, words, symbols, position, space):
    """Write the target side of the rule at v, whose nonterminals have been numbered.

    Tails come by where they begin on the target side and, where that is the same, in source order; a node without
    target words has no target side.
    """
    numbers, stack, stack_position, stack_last = space.numbers, space.stacks[0], space.stacks[1], space.stacks[2]
    depth = 1
    stack[0] = v
    stack_position[0] = view.node[v]["target_start"]
    stack_last[0] = -1
    while depth > 0:
        x = stack[depth - 1]
        end = np.int64(view.node[x]["target_end"])
        first, last = tails_of(x, view)
        nearest = -1
        nearest_place = np.int64(1) << 40
        if view.node[x]["target_start"] < end:
            for i in range(first, last):
                t = view.tails[i]
                place = np.int64(view.node[t]["target_start"]) * (NO_TAIL + 1) + i - first
                if stack_last[depth - 1] < place < nearest_place:
                    nearest = np.int64(t)
                    nearest_place = place
        until = end if nearest < 0 else np.int64(view.node[nearest]["target_start"])
        for w in range(stack_position[depth - 1], until):
            symbols[position] = words[w]
            position += 1
        if nearest < 0:
            depth -= 1
            continue
        stack_last[depth - 1] = nearest_place
        stack_position[depth - 1] = view.node[nearest]["target_end"]
        if view.cut[nearest]:
            symbols[position] = -(numbers[nearest] + LABEL_STEP * np.int64(view.node[nearest]["label"]))
            position += 1
        else:
            stack[depth] = nearest
            stack_position[depth] = view.node[nearest]["target_start"]
            stack_last[depth] = -1
            depth += 1
    return position
