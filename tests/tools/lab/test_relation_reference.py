"""The generated page of tables and views."""

from hierogram.tools.lab.relation_reference import PAGE, page


def test_the_generated_page_of_tables_and_views_is_current() -> None:
    assert PAGE.read_text() == page(), "run `python -m hierogram.tools.lab.relation_reference`"
