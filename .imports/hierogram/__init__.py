"""Hierogram: learn synchronous grammars from parallel text, in a store that keeps learning, or in memory.

    import hierogram as hg

    with hg.open("news.db", create=True) as store:
        store.add("news.fr", "news.en", "news.align")
        store.learn().run()
        print(store.rules(source="maison").to_pandas())

A module is imported when one of its names is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hierogram.daemon.exceptions import DaemonError as DaemonError
    from hierogram.daemon.exceptions import InputError as InputError
    from hierogram.daemon.exceptions import NothingLearnedError as NothingLearnedError
    from hierogram.daemon.exceptions import UsageError as UsageError
    from hierogram.daemon.exports.difference import diff as diff
    from hierogram.daemon.exports.options import ExportOptions as ExportOptions
    from hierogram.daemon.learning.alignment.options import AlignOptions as AlignOptions
    from hierogram.daemon.library.aligning import align as align
    from hierogram.daemon.library.learning import Learning as Learning
    from hierogram.daemon.library.pairs import StoredPair as StoredPair
    from hierogram.daemon.library.sampling import DirichletProcess as DirichletProcess
    from hierogram.daemon.library.sampling import PitmanYor as PitmanYor
    from hierogram.daemon.library.sampling import SampledChain as SampledChain
    from hierogram.daemon.library.sampling import sample as sample
    from hierogram.daemon.library.store import GrammarStore as GrammarStore
    from hierogram.daemon.library.store import open as open
    from hierogram.daemon.library.tables import RuleTable as RuleTable
    from hierogram.daemon.shared_options import DictionaryOptions as DictionaryOptions
    from hierogram.daemon.text.treebanks.transformations import Transformations as Transformations
    from hierogram.samplers.exceptions import SamplerError as SamplerError
    from hierogram.samplers.grammar.known_links import KnownLinks as KnownLinks
    from hierogram.samplers.grammar.rules import Rule as Rule
    from hierogram.samplers.grammar.schedules import Annealing as Annealing
    from hierogram.samplers.grammar.schedules import Schedule as Schedule
    from hierogram.samplers.grammar.schedules import quick_schedule as quick_schedule
    from hierogram.samplers.grammar.schedules import stratified_schedule as stratified_schedule
    from hierogram.storage.exceptions import StoreError as StoreError
    from hierogram.storage.exceptions import StoreHeldError as StoreHeldError
    from hierogram.storage.exceptions import StoreMissingError as StoreMissingError
    from hierogram.storage.records.settings import Settings as Settings
    from hierogram.tools.alignment_scores import evaluate_links as evaluate_links
    from hierogram.tools.diagnosis.diagnosis import diagnose as diagnose
    from hierogram.tools.diagnosis.options import ChainOptions as ChainOptions
    from hierogram.tools.evidence.options import EvidenceOptions as EvidenceOptions
    from hierogram.tools.evidence.retrieval import evidence as evidence
    from hierogram.tools.integrations.translation_memory import memory as memory
    from hierogram.tools.integrations.translation_memory import nearest as nearest
    from hierogram.tools.scores.library import kept_scores as kept_scores
    from hierogram.tools.scores.library import score as score
    from hierogram.tools.terms.extraction import terms as terms
    from hierogram.tools.terms.options import TermOptions as TermOptions
    from hierogram.tools.translation.library import Decoder as Decoder
    from hierogram.tools.translation.library import evaluate as evaluate
    from hierogram.tools.translation.library import lm as lm
    from hierogram.tools.translation.options import EstimationOptions as EstimationOptions
    from hierogram.tools.translation.options import EvaluationOptions as EvaluationOptions
    from hierogram.tools.translation.options import TranslateOptions as TranslateOptions
    from hierogram.tools.translation.options import TuningOptions as TuningOptions
    from hierogram.tools.translation.store_translator import Corrections as Corrections
    from hierogram.tools.translation.tuning_runs import tune as tune
    from hierogram.tools.treebanks.library import evaluate_trees as evaluate_trees
    from hierogram.tools.treebanks.library import parse as parse
    from hierogram.tools.treebanks.requests import ParseRequest as ParseRequest

    __version__: str

_PUBLIC_NAMES = {
    "daemon.exceptions": ("DaemonError", "InputError", "NothingLearnedError", "UsageError"),
    "daemon.exports.difference": ("diff",),
    "daemon.exports.options": ("ExportOptions",),
    "daemon.learning.alignment.options": ("AlignOptions",),
    "daemon.library.aligning": ("align",),
    "daemon.library.learning": ("Learning",),
    "daemon.library.pairs": ("StoredPair",),
    "daemon.library.sampling": ("DirichletProcess", "PitmanYor", "SampledChain", "sample"),
    "daemon.library.store": ("GrammarStore", "open"),
    "daemon.library.tables": ("RuleTable",),
    "daemon.shared_options": ("DictionaryOptions",),
    "daemon.text.treebanks.transformations": ("Transformations",),
    "samplers.exceptions": ("SamplerError",),
    "samplers.grammar.known_links": ("KnownLinks",),
    "samplers.grammar.rules": ("Rule",),
    "samplers.grammar.schedules": ("Annealing", "Schedule", "quick_schedule", "stratified_schedule"),
    "storage.exceptions": ("StoreError", "StoreHeldError", "StoreMissingError"),
    "storage.records.settings": ("Settings",),
    "tools.alignment_scores": ("evaluate_links",),
    "tools.diagnosis.diagnosis": ("diagnose",),
    "tools.diagnosis.options": ("ChainOptions",),
    "tools.evidence.retrieval": ("evidence",),
    "tools.evidence.options": ("EvidenceOptions",),
    "tools.integrations.translation_memory": ("memory", "nearest"),
    "tools.scores.library": ("kept_scores", "score"),
    "tools.terms.extraction": ("terms",),
    "tools.terms.options": ("TermOptions",),
    "tools.translation.library": ("Decoder", "evaluate", "lm"),
    "tools.translation.options": ("EstimationOptions", "EvaluationOptions", "TranslateOptions", "TuningOptions"),
    "tools.translation.store_translator": ("Corrections",),
    "tools.translation.tuning_runs": ("tune",),
    "tools.treebanks.library": ("evaluate_trees", "parse"),
    "tools.treebanks.requests": ("ParseRequest",),
}
"""Public names by the module that defines them. The imports above repeat them for type checkers."""
_MODULES = {name: f"{__name__}.{module}" for module, names in _PUBLIC_NAMES.items() for name in names}

__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        # Import importlib.metadata only here, because it loads slower than all other modules of a query process.
        from importlib.metadata import version

        value: Any = version("hierogram")
    elif name in _MODULES:
        value = getattr(import_module(_MODULES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES, "__version__"])
