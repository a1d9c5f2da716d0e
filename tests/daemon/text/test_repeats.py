"""Repeat numbers are the same whether lines are counted in memory or in a file."""

from random import Random

from hierogram.daemon.text.validation import DuplicateCounter


def test_repeat_numbers_do_not_depend_on_the_memory_limit() -> None:
    random = Random(3)
    # The first lines are distinct, so that some chunks have no repeat.
    contents: list[tuple[str, str, str | None]] = [(f"s{k}", "t", "0-0") for k in range(40)]
    contents += [(f"s{random.randrange(80)}", "t", "0-0") for _ in range(1_000)]
    counted: dict[object, int] = {}
    expected = []
    for content in contents:
        expected.append(counted.setdefault(content, 0))
        counted[content] += 1
    for in_memory in (0, 1, 17, 2_000):
        for size in (1, 7, 1_040):
            repeats = DuplicateCounter(in_memory)
            chunks = [contents[first : first + size] for first in range(0, len(contents), size)]
            assert [number for chunk in chunks for number in repeats.occurrences(*zip(*chunk, strict=True))] == expected
            repeats.close()
