"""What is told of a rule beside its sides: the values that exports carry."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Feature:
    """A value of a rule: its name, what it is, and how it is computed from the columns of `scored`."""

    name: str
    meaning: str
    value: str
    lexical: bool = False
    probability: bool = False


FEATURES = (
    Feature(
        "p_target_given_source",
        "count over the sum of counts with that source side",
        "uses / source_uses",
        probability=True,
    ),
    Feature(
        "p_source_given_target",
        "count over the sum of counts with that target side",
        "uses / target_uses",
        probability=True,
    ),
    Feature("lex_target_given_source", "lexical weight of the target words", "lex_target_given_source", True, True),
    Feature("lex_source_given_target", "lexical weight of the source words", "lex_source_given_target", True, True),
    Feature("count", "how often it is expected to be used; with `drawn`, how often it is", "count"),
    Feature("singleton", "1 where it is used at most once", "CASE WHEN count <= 1 THEN 1 ELSE 0 END"),
    Feature(
        "source_singleton",
        "1 where its source side is used at most once",
        "CASE WHEN source_count <= 1 THEN 1 ELSE 0 END",
    ),
    Feature("terminals_only", "1 where it has no nonterminal", "CASE WHEN nonterminals = 0 THEN 1 ELSE 0 END"),
    Feature("glue", "1 for glue rules, which stand in a file of their own; here 0", "0"),
)

BY_NAME = {feature.name: feature for feature in FEATURES}
