"""What a commit carries: the rules whose counts change, in the order in which the store takes them best."""

from hierogram.samplers.counts.ordering import taken, text_order
from hierogram.storage.records.columns import RuleDeltas


def in_order_of_sources(rules: RuleDeltas) -> RuleDeltas:
    """The rules by source, those with the same source by key.

    So in the store rules that are looked up together lie together, and its index of sources grows in order.
    """
    order = text_order(rules.sources, rules.keys)
    return rules.at(order, taken(rules.sources, order), taken(rules.targets, order))
