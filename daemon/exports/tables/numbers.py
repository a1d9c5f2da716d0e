"""Numbers in SQL as decoders read them."""


def plain(value: str) -> str:
    """Whole numbers exactly, others to six digits; an exponent comes after a decimal point, as cdec wants it."""
    return f"plain_number({value})"


MACROS = (
    """CREATE MACRO plain_number(x) AS CASE
        WHEN x = floor(x) AND abs(x) < 1e15 THEN CAST(CAST(x AS BIGINT) AS VARCHAR)
        WHEN abs(x) >= 1e-4 AND abs(x) < 999999 THEN printf('%.6g', CAST(x AS DOUBLE))
        ELSE printf('%.5e', CAST(x AS DOUBLE)) END""",
)
