"""Repeats are numbered the same way in memory and in a file."""

from random import Random

from hierogram.daemon.repeats import Repeats


def test_repeats_are_numbered_whatever_the_memory() -> None:
    random = Random(3)
    contents = [(f"s{random.randrange(40)}", "t", "0-0") for _ in range(1_000)]
    counted: dict[object, int] = {}
    expected = []
    for content in contents:
        expected.append(counted.setdefault(content, 0))
        counted[content] += 1
    for in_memory in (0, 1, 17, 2_000):
        repeats = Repeats(in_memory)
        assert [repeats.occurrence(*content) for content in contents] == expected
        repeats.close()
