"""Sides of rules and numbers in SQL: which symbols are nonterminals, words as they were, other notations."""

NONTERMINAL = r"\[X,[1-9][0-9]*\]"

ESCAPED = r"\\"[:1]


def concatenated(*parts: str) -> str:
    """One text of the parts, none of which is NULL; by one function, since each `||` copies all that is before it."""
    return f"concat({', '.join(parts)})"


def spaced(*parts: str) -> str:
    """One text of the parts, none of which is NULL, with spaces between them."""
    return f"concat_ws(' ', {', '.join(parts)})"


def is_nonterminal(symbol: str) -> str:
    """Return whether the symbol (an SQL expression) is a nonterminal in the store's notation."""
    return f"(starts_with({symbol}, '[X,') AND regexp_full_match({symbol}, '{NONTERMINAL}'))"


def word(symbol: str) -> str:
    """Return the word that a terminal symbol stands for: the backslash before an odd one taken off."""
    return f"(CASE WHEN starts_with({symbol}, '{ESCAPED}') THEN substr({symbol}, 2) ELSE {symbol} END)"


def symbols(side: str) -> str:
    """Return the side's symbols as a list."""
    return f"(CASE WHEN {side} = '' THEN CAST([] AS VARCHAR[]) ELSE string_split({side}, ' ') END)"


def is_plain(side: str, characters: str) -> str:
    """Return whether none of the characters is in the side but for the brackets of its nonterminals."""
    own = " AND ".join(f"strlen({side}) - strlen(replace({side}, '{bracket}', '')) = nonterminals" for bracket in "[]")
    none = f"NOT contains({side}, '[') AND NOT contains({side}, ']')"
    others = "".join(f" AND NOT contains({side}, '{character}')" for character in characters)
    return f"(CASE WHEN nonterminals = 0 THEN {none} ELSE {own} END{others})"


def mapped(side: str, terminal: str, nonterminal: str) -> str:
    """Return the side with every symbol `x` written as the expressions say."""
    return (
        f"array_to_string(list_transform({symbols(side)}, lambda x: "
        f"CASE WHEN {is_nonterminal('x')} THEN {nonterminal} ELSE {terminal} END), ' ')"
    )


def links(source: str, target: str, alignment: str) -> str:
    """Return the links of a rule as text, sorted: those of its words, and of its nonterminals, each with itself."""
    pair = "{'i': CAST(split_part(x, '-', 1) AS INTEGER), 'j': CAST(split_part(x, '-', 2) AS INTEGER)}"
    of_words = f"list_transform(string_split({alignment}, ' '), lambda x: {pair})"
    words = f"(CASE WHEN {alignment} = '' THEN [] ELSE {of_words} END)"
    place = "CAST(list_position({side}, '[X,' || k || ']') - 1 AS INTEGER)"
    of_source = place.format(side=f"string_split({source}, ' ')")
    of_target = place.format(side=f"string_split({target}, ' ')")
    gaps = f"list_transform(range(1, nonterminals + 1), lambda k: {{'i': {of_source}, 'j': {of_target}}})"
    return f"array_to_string(list_transform(list_sort(list_concat({words}, {gaps})), lambda l: l.i || '-' || l.j), ' ')"


def plain(value: str) -> str:
    """Write whole numbers exactly, others to six digits; an exponent follows a decimal point, as cdec wants it."""
    return f"plain_number({value})"


NUMBER_MACRO = """CREATE MACRO plain_number(x) AS CASE
    WHEN x = floor(x) AND abs(x) < 1e15 THEN CAST(CAST(x AS BIGINT) AS VARCHAR)
    WHEN abs(x) >= 1e-4 AND abs(x) < 999999 THEN printf('%.6g', CAST(x AS DOUBLE))
    ELSE printf('%.5e', CAST(x AS DOUBLE)) END"""
