"""The ITG as an aligner: links, posteriors, progress reports, and refused input."""

import numpy as np
import pytest
from tests.daemon.learning.alignment.languages import invented_corpus

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.learning.alignment.aligning import align
from hierogram.daemon.learning.alignment.options import AlignOptions
from hierogram.samplers.alignment.bitext import read_side
from hierogram.samplers.alignment.marginals import LinkSamples, decode_links
from hierogram.samplers.alignment.models import registry
from hierogram.samplers.exceptions import AlignmentInputError

ITG = AlignOptions(model="itg", sweeps=12, chains=2)


@pytest.mark.parametrize("options", [ITG, AlignOptions(model="itg-pruned")], ids=lambda options: options.model)
def test_itg_finds_the_links_of_an_invented_language(options: AlignOptions) -> None:
    source, target, right = invented_corpus(150, seed=3)
    found = [set(line.split()) for line in align(source, target, options).lines()]
    wanted = [set(line.split()) for line in right]
    shared = sum(len(one & other) for one, other in zip(found, wanted, strict=True))
    assert shared / sum(map(len, found)) > 0.9
    assert shared / sum(map(len, wanted)) > 0.6


def test_chains_start_from_links_of_the_default_model() -> None:
    """The targets are reversed, so that most links on the diagonal are wrong."""
    source, forwards, right = invented_corpus(15, seed=3)
    target = [" ".join(reversed(line.split())) for line in forwards]
    lengths = [len(line.split()) for line in forwards]
    found = [set(line.split()) for line in align(source, target, AlignOptions(model="itg", sweeps=1)).lines()]
    wanted = [
        {f"{i}-{length - 1 - int(x)}" for i, _, x in (link.partition("-") for link in line.split())}
        for line, length in zip(right, lengths, strict=True)
    ]
    shared = sum(len(one & other) for one, other in zip(found, wanted, strict=True))
    assert shared / sum(map(len, found)) > 0.9
    assert shared / sum(map(len, wanted)) > 0.9


def test_threads_and_progress_reports_do_not_change_the_links() -> None:
    source, target, _ = invented_corpus(100, seed=5)
    steps: list[tuple[int, int]] = []
    one = align(source, target, AlignOptions(model="itg", sweeps=6, chains=3, threads=1), lambda *at: steps.append(at))
    two = align(source, target, AlignOptions(model="itg", sweeps=6, chains=3, threads=2))
    assert list(one.lines(True)) == list(two.lines(True))
    first = registry.options_for(registry.DEFAULT_MODEL, 100).sweeps
    sweeps = 3 * (2 * first + 6)
    assert steps == [(done, sweeps) for done in range(1, sweeps + 1)]
    other = align(source, target, AlignOptions(model="itg", sweeps=6, chains=3, seed=9))
    assert list(one.lines(True)) != list(other.lines(True))


def test_the_pruned_itg_reports_every_sweep_and_is_reproducible() -> None:
    """One pair exceeds the edge limit of its chart, and one has an empty side."""
    source, target, _ = invented_corpus(40, seed=5)
    source[7], target[7], source[8] = " ".join("ab" * 20), " ".join("xy" * 20), ""
    steps: list[tuple[int, int]] = []
    request = AlignOptions(model="itg-pruned", sweeps=3)
    one = align(source, target, request, lambda *at: steps.append(at))
    assert list(one.lines(True)) == list(align(source, target, request).lines(True))
    sweeps = 2 * registry.options_for(registry.DEFAULT_MODEL, 40).sweeps + 3
    assert steps == [(done, sweeps) for done in range(1, sweeps + 1)]
    assert list(one)[8] == []


def test_itg_links_are_one_to_one() -> None:
    source, target, _ = invented_corpus(60, seed=8)
    for line in align(source, target, AlignOptions(model="itg", sweeps=8)).lines():
        links = [link.split("-") for link in line.split()]
        assert len({i for i, _ in links}) == len({x for _, x in links}) == len(links)


def test_pairs_with_an_empty_side_get_an_empty_line() -> None:
    lines = list(align(["a b", "", "c", ""], ["x y", "x", "", ""], ITG).lines())
    assert lines[1:] == ["", "", ""]
    assert len(lines) == 4


def test_posteriors_are_shares_of_the_samples() -> None:
    source, target = read_side(["a b", "", "a"]), read_side(["x", "y", "x y"])
    samples = LinkSamples(np.array([3, 1, 0, 4], np.float32), np.array([0, 2, 0, 0], np.float32), 4)
    links, posterior = decode_links(samples, source, target, implied=False)
    assert (links.source.tolist(), links.target.tolist(), links.offset.tolist()) == ([0, 0], [0, 1], [0, 1, 1, 2])
    assert posterior.tolist() == [0.75, 1.0]
    links, posterior = decode_links(samples, source, target, implied=True)
    assert (links.source.tolist(), posterior.tolist()) == ([0, 1, 0], [0.75, 0.75, 1.0])


def test_itg_refuses_a_single_direction() -> None:
    with pytest.raises(UsageError, match="aligns both directions jointly, without prior counts: remove --dir"):
        align(["a"], ["x"], AlignOptions(model="itg", direction="forward"))


def test_itg_refuses_prior_counts_of_a_store() -> None:
    with pytest.raises(UsageError, match="remove --store"):
        align(["a"], ["x"], ITG, read_prior=lambda source, target: [])


def test_an_oversized_line_is_reported() -> None:
    with pytest.raises(AlignmentInputError, match="sentence pair 2: 251 words on the source side"):
        align(["a", " ".join("a" * 251)], ["x", "y"], ITG)
