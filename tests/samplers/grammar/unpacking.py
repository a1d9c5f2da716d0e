"""Expansion of a packed forest into its trees."""

from itertools import product

from hierogram.samplers.grammar.brackets import Parse


def unpack_trees(parse: Parse) -> set[str]:
    """Return every tree of a forest, written without sharing."""

    def of(number: int) -> set[str]:
        node = parse.nodes[number]
        found = set()
        for edge in node.edges:
            options = []
            place = node.start
            for tail in edge:
                options += [{word} for word in parse.words[place : parse.nodes[tail].start]]
                options.append(of(tail))
                place = parse.nodes[tail].end
            options += [{word} for word in parse.words[place : node.end]]
            found |= {f"({node.label} {' '.join(items)})" for items in product(*options)}
        return found

    return of(len(parse.nodes) - 1)
