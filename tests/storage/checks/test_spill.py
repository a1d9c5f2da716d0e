"""Spilled rows are read back exactly once, in any number of parts."""

import numpy as np
import pytest

from hierogram.samplers.grammar.columns import join_blobs, split_blobs
from hierogram.storage.checks.spill import SLICES, open_spill, slice_ranges

KIND = np.dtype([("number", np.int64), ("flag", np.bool_)])


def row_batches(random: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray, list[bytes], list[bytes]]]:
    """Return batches of rows: slices in ascending order, rows, and two lists of texts, some of them empty.

    A batch of several rows contains the first and the last slice.
    """
    batches = []
    for size in (0, 500, 1, 2_000):
        slices = np.sort(random.integers(0, SLICES, size))
        if size > 1:
            slices[0], slices[-1] = 0, SLICES - 1
        rows = np.zeros(size, KIND)
        rows["number"], rows["flag"] = random.integers(-9, 9, size), random.random(size) < 0.5
        texts = [[random.bytes(int(random.integers(0, 5))) for _ in range(size)] for _ in range(2)]
        batches.append((slices, rows, *texts))
    return batches


@pytest.mark.parametrize("most", [1, 30, 10_000])
def test_every_spilled_row_is_read_in_exactly_one_part(most: int) -> None:
    added = row_batches(np.random.default_rng(most))
    with open_spill(KIND, 2) as spill, open_spill(np.dtype(np.int64)) as other:
        for slices, rows, one, two in added:
            spill.add(slices, rows, join_blobs(one), join_blobs(two))
            other.add(slices, slices)
        bounds = list(slice_ranges([spill, other], most))
        assert [first for first, _ in bounds] == [0, *(last for _, last in bounds[:-1])]
        assert bounds[-1][1] == SLICES
        for first, last in bounds:
            sizes = spill.sizes[first:last] + other.sizes[first:last]
            assert sizes.sum() <= most or np.count_nonzero(sizes) == 1
            rows, texts = spill.read(first, last)
            chosen = [(slices >= first) & (slices < last) for slices, *_ in added]
            expected = [batch[1][is_chosen] for batch, is_chosen in zip(added, chosen, strict=True)]
            assert np.array_equal(rows, np.concatenate(expected))
            for k, column in enumerate(texts, 2):
                expected_texts = [
                    batch[k][row]
                    for batch, is_chosen in zip(added, chosen, strict=True)
                    for row in np.flatnonzero(is_chosen)
                ]
                assert split_blobs(column) == expected_texts
            again, _ = other.read(first, last)
            assert len(again) == len(rows)
