"""Aligner models by name, with default options and kernels. Imports neither numpy nor numba."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

from hierogram.samplers.alignment.options import AlignerOptions
from hierogram.samplers.exceptions import AlignmentInputError

_SMALL_CORPUS = 1000
"""Maximum number of pairs for which bhmm-f runs `_MAX_CHAINS` chains of `_MAX_SWEEPS` sweeps."""
_MAX_CHAINS, _MIN_CHAINS, _CHAINS_EXPONENT = 9, 3, 0.4
_MAX_SWEEPS, _MIN_SWEEPS = 40, 16
_EFFORT_EXPONENT = 0.6
"""For N > `_SMALL_CORPUS` pairs, chains * sweeps ∝ N ** -0.6 and chains ∝ N ** -0.4, down to minima."""
_MAX_ITG_SWEEPS, _MIN_ITG_SWEEPS, _ITG_SWEEPS_SCALE = 60, 20, 1300
"""ITG chains have `_ITG_SWEEPS_SCALE` / sqrt(pairs) sweeps within these limits."""
_MASKS = 16
"""Default number of masks per pair of itg-pruned, given as its number of sweeps."""


@dataclass(frozen=True, slots=True)
class AlignerModel:
    """Model of one direction, or of both directions jointly.

    `summary` is a phrase for help texts. `options` returns the default options, given the number of pairs and the
    number of sweeps, or None to choose it. `load` imports and returns the `ModelFunctions` of a model of one direction,
    or the aligner class of a joint model. `uses_prior_counts` is True if a model of one direction can use link counts
    of other pairs and known links. Joint models use link counts of other pairs, but no known links.
    """

    name: str
    summary: str
    options: Callable[[int, int | None], AlignerOptions]
    load: Callable[[], Any]
    uses_prior_counts: bool = False


def _paper_options(
    model: str, default_sweeps: int, warm_up_share: float, pairs: int, sweeps: int | None
) -> AlignerOptions:
    """Return defaults of a model of [SA16 §5], which do not depend on the number of pairs."""
    chosen = sweeps or default_sweeps
    thinning = min(25, chosen)
    # End the warm-up before the last sweep that can be sampled.
    warm = max(0, min(round(warm_up_share * chosen), chosen // thinning * thinning - 1))
    return AlignerOptions(
        model=model,
        sweeps=chosen,
        chains=1,
        burn_in=warm,
        thinning=thinning,
        lexical=0.0001,
        similarity=0.0,
        warming=warm,
    )


def _fertility_options(pairs: int, sweeps: int | None) -> AlignerOptions:
    """Return defaults of bhmm-f: several chains, since more chains improve links more than more sweeps do."""
    ratio = min(1.0, _SMALL_CORPUS / max(pairs, 1))
    chains = max(_MIN_CHAINS, round(_MAX_CHAINS * ratio**_CHAINS_EXPONENT))
    effort = max(_MAX_CHAINS * _MAX_SWEEPS * ratio**_EFFORT_EXPONENT, _MIN_CHAINS * _MIN_SWEEPS)
    chosen = sweeps or round(effort / chains)
    return AlignerOptions(
        model="bhmm-f",
        sweeps=chosen,
        chains=chains,
        burn_in=chosen * 3 // 5,
        thinning=2 if chosen > 4 else 1,
        lexical=0.001,
        similarity=1.0,
        warming=chosen // 8,
        jump=2.0,
        fertility=4.0,
        stems=True,
    )


def _itg_options(pairs: int, sweeps: int | None) -> AlignerOptions:
    scaled = round(_ITG_SWEEPS_SCALE / max(pairs, 1) ** 0.5)
    chosen = sweeps or min(max(scaled, _MIN_ITG_SWEEPS), _MAX_ITG_SWEEPS)
    return AlignerOptions(
        model="itg",
        sweeps=chosen,
        chains=4,
        burn_in=chosen // 2,
        thinning=2 if chosen > 4 else 1,
        lexical=0.0,
        similarity=1.0,
    )


def _masks_options(pairs: int, sweeps: int | None) -> AlignerOptions:
    return replace(_itg_options(pairs, sweeps or _MASKS), model="itg-pruned", chains=1, burn_in=0, thinning=1)


def _loader(module: str, name: str = "FUNCTIONS") -> Callable[[], Any]:
    return lambda: getattr(import_module(f"{__package__}.{module}"), name)


MODELS = {
    model.name: model
    for model in (
        AlignerModel(
            "bhmm-f", "HMM with fertilities", _fertility_options, _loader("fertility"), uses_prior_counts=True
        ),
        AlignerModel("bhmm", "HMM [SA16]", partial(_paper_options, "bhmm", 2000, 0.8), _loader("hmm")),
        AlignerModel(
            "bhmm-z",
            "HMM with collocations [SA16]",
            partial(_paper_options, "bhmm-z", 1000, 0.0),
            _loader("collocations"),
        ),
    )
}
"""Models that align one direction at a time, by name. The first model is the default."""

JOINT_MODELS = {
    model.name: model
    for model in (
        AlignerModel(
            "itg",
            "inversion transduction grammar, both directions jointly",
            _itg_options,
            _loader("itg", "ItgAligner"),
        ),
        AlignerModel(
            "itg-pruned",
            "ITG by randomized pruning [BPK09]; one random mask per sweep",
            _masks_options,
            _loader("itg", "PrunedItgAligner"),
        ),
    )
}
"""Models that align both directions jointly, by name."""

ALL_MODELS = {**MODELS, **JOINT_MODELS}
DEFAULT_MODEL = next(iter(MODELS))


def find_model(name: str) -> AlignerModel:
    """Return a model of one direction. Raises `AlignmentInputError` for an unknown name."""
    if name not in MODELS:
        raise AlignmentInputError(f"unknown model {name!r}: expected {', '.join(MODELS)}")
    return MODELS[name]


def options_for(name: str, pairs: int, sweeps: int | None = None, **chosen: float | str | None) -> AlignerOptions:
    """Return the default options of a model for `pairs` pairs, replaced by values of `chosen` except None.

    Raises `AlignmentInputError` for an unknown model or an invalid value.
    """
    if name not in ALL_MODELS:
        raise AlignmentInputError(f"unknown model {name!r}: expected {', '.join(ALL_MODELS)}")
    defaults = ALL_MODELS[name].options(pairs, sweeps)
    changes: dict[str, Any] = {option: value for option, value in chosen.items() if value is not None}
    return replace(defaults, **changes)
