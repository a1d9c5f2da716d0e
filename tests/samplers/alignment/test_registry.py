"""The aligner's models are registry entries: no code that runs or describes them depends on their names."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from hierogram.daemon.learning.alignment.aligning import align
from hierogram.daemon.learning.alignment.options import AlignOptions
from hierogram.samplers.alignment.marginals import decode, load_sums, store_sums
from hierogram.samplers.alignment.models.registry import ALL_MODELS, DEFAULT_MODEL, MODELS, AlignerModel, options_for
from hierogram.samplers.alignment.models.sampler import AlignmentKernel, ModelFunctions
from hierogram.samplers.alignment.options import AlignerOptions
from hierogram.samplers.exceptions import AlignmentInputError

LAST = "last"


def last_words() -> ModelFunctions:
    """Return a model without parameters that links every word to the last word of the other side."""

    def start(direction, options, seed):
        lengths = np.diff(direction.bitext.conditioning_offset)
        return np.repeat(lengths - 1, np.diff(direction.bitext.emitted_offset)).astype(np.int16)

    def sweep(first, bitext, chain, key, plan, scratch, marginals):
        for pair in range(bitext.pairs):
            load_sums(bitext, pair, marginals)
            length = bitext.conditioning_offset[pair + 1] - bitext.conditioning_offset[pair]
            for g in range(bitext.emitted_offset[pair], bitext.emitted_offset[pair + 1]):
                row = (g - bitext.emitted_offset[pair]) * (length + 1)
                marginals.cells[row + 1 + chain.links[g]] += plan.sampled
            store_sums(bitext, pair, marginals.samples[0] + 1, marginals)
        return bitext.pairs

    return ModelFunctions(start, lambda first, bitext, chain, scratch: bitext.pairs, sweep, decode)


def few_sweeps(pairs: int, sweeps: int | None) -> AlignerOptions:
    return AlignerOptions(LAST, sweeps or 3, 1, burn_in=0, thinning=1, lexical=0.1, similarity=0.0)


def test_a_registry_entry_adds_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for models in (MODELS, ALL_MODELS):
        monkeypatch.setitem(models, LAST, AlignerModel(LAST, "links to the last word", few_sweeps, last_words))
    request = AlignOptions(model=LAST, symmetrization="union")
    assert list(align(["a b", "c"], ["x", "y z"], request).lines()) == ["0-0 1-0", "0-0 0-1"]


def test_bhmm_f_is_the_default() -> None:
    assert DEFAULT_MODEL == "bhmm-f"


@pytest.mark.parametrize("model", MODELS)
def test_given_options_replace_the_defaults_of_a_model(model: str) -> None:
    usual = options_for(model, 100)
    assert usual.model == model
    chosen = options_for(model, 100, 40, chains=3, lexical=None, similarity=0.5)
    assert (chosen.sweeps, chosen.chains, chosen.lexical, chosen.similarity) == (40, 3, usual.lexical, 0.5)


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(AlignmentInputError, match="unknown model 'ibm4': expected bhmm-f, bhmm, bhmm-z, itg"):
        options_for("ibm4", 5)


@pytest.mark.parametrize("model", MODELS)
def test_each_step_reports_the_number_of_samples(model: str) -> None:
    from hierogram.samplers.alignment.bitext import make_direction, read_side

    direction = make_direction(read_side(["a b", "b"]), read_side(["x y", "y"]))
    options = options_for(model, 2, 4)
    kernel = AlignmentKernel(options, direction)
    key = 1
    state = kernel.init(key)
    samples = 0
    for sweep in range(1, 5):
        plan = options.plan(sweep)
        state, info = kernel.step(key, state, plan)
        samples += plan.sampled
        assert info == samples
        assert state.marginals.samples[0] == samples
    assert samples > 0


def test_options_load_neither_numpy_nor_numba() -> None:
    script = (
        "import sys\nfrom hierogram.daemon.learning.alignment import options\n"
        "from hierogram.samplers.alignment.models import registry\n"
        "print(registry.options_for(registry.DEFAULT_MODEL, 9).chains, 'numpy' in sys.modules, 'numba' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "9 False False\n"


def test_sweeps_decrease_gradually_with_corpus_size() -> None:
    def effort(pairs: int) -> int:
        chosen = options_for(DEFAULT_MODEL, pairs)
        return chosen.chains * chosen.sweeps

    efforts = [effort(pairs) for pairs in range(1, 40_000)]
    # Steps are due to the rounding of sweeps, which changes each of nine chains by up to half a sweep up or down.
    assert all(abs(one - other) <= 9 for one, other in pairwise(efforts))
    assert efforts[0] == efforts[999] > efforts[1_999] > efforts[4_999] > efforts[19_999] > efforts[-1] == 48
    assert options_for(DEFAULT_MODEL, 10**7).sweeps >= 16
