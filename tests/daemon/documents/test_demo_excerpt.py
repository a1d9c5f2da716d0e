"""The README shows the output of the demo."""

import re
from pathlib import Path

import pytest

from hierogram.tools.lab.demo_excerpt import current_excerpt, excerpt, run_demo

README = (Path(__file__).parents[3] / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.database("sqlite")
def test_the_readme_shows_the_demo_output() -> None:
    printed = run_demo()
    assert current_excerpt(README) == excerpt(printed)
    [figures] = re.findall(r"stores ([\d,]+) pairs of verses with ([\d,]+) manual links", README)
    stored = re.findall(r"^([\d,]+) pairs of verses .* with ([\d,]+) manual links", printed, re.MULTILINE)
    assert stored == [figures]


def test_excerpt_contains_the_first_rule_of_each_kind() -> None:
    printed = "x\nMost used and most probable rules:\n  one\n    a\n    b\n  two\n    c\n\nAsk\n"
    assert excerpt(printed) == "  one\n    a\n  two\n    c\n"
    assert current_excerpt("learns, and prints rules:\n\n```text\nold\n```\n") == "old\n"
