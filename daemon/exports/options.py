"""What an export holds and how it is written: one model for the command line, the configuration and the schedule."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hierogram.samplers.grammar.rules import HIERO_MAX_NONTERMINALS, HIERO_MAX_SOURCE_SYMBOLS

HIERO_MAX_SPAN = 10
"""Words of an initial phrase on either side, at most [Chiang 2007]."""


class Compression(StrEnum):
    """How a file is compressed."""

    AUTO = "auto"
    ZSTD = "zstd"
    GZIP = "gzip"
    NONE = "none"


class Marginals(StrEnum):
    """Over which rules probabilities are relative frequencies."""

    BEFORE = "before"
    AFTER = "after"


Positive = Annotated[int, Field(ge=1)]


class ExportOptions(BaseModel):
    """What is exported, in which format.

    Filters work in the order of the fields. `hiero` stands for Chiang's (2007) constraints together: at most two
    nonterminals, none side by side on the source side, at most five source symbols, an aligned pair of words, and
    phrases of at most ten words.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_enum_values=False)

    format: str = Field(default="cdec", description="Format, by name; `hierogram export --help` lists them.")
    features: tuple[str, ...] | None = Field(
        default=None, description="Features to write, by name, where the format leaves a choice; all, if none is named."
    )
    compression: Compression = Field(
        default=Compression.AUTO, description="zstd, gzip, none, or auto: by the file's name, else by the format."
    )
    level: int | None = Field(
        default=None, ge=1, le=22, description="Level of the compression; 3 for zstd, 6 for gzip."
    )
    long_distance: bool = Field(default=False, description="zstd: look for repeats up to 128 MiB back.")
    compression_threads: int = Field(default=0, ge=0, le=256, description="zstd: threads beside the writing one.")
    sampled: bool = Field(default=False, description="Counts averaged over the kept samples, instead of those of now.")
    corpus: str | None = Field(default=None, description="Only what the pairs of this corpus use, counted anew.")
    min_count: float = Field(default=0.0, ge=0, description="Leave out rules with a lower count.")
    max_scope: int | None = Field(default=2, ge=0, description="Leave out rules that parse slower than O(n^K).")
    hiero: bool = Field(default=False, description="Chiang's (2007) constraints, all of the next five.")
    max_nonterminals: int | None = Field(default=None, ge=0, description="Nonterminals on a side.")
    no_adjacent: bool = Field(default=False, description="No nonterminals side by side on the source side.")
    max_source_symbols: Positive | None = Field(default=None, description="Words and nonterminals on the source side.")
    aligned: bool = Field(default=False, description="At least one aligned pair of words within the rule.")
    max_span: Positive | None = Field(
        default=None, description="Words that the rule's phrase spans on either side, as far as its sides show."
    )
    filter_for: Path | None = Field(default=None, description="Only rules that can match a sentence of this file.")
    per_source: Positive | None = Field(default=None, description="Only so many rules of a source side, by count.")
    marginals: Marginals = Field(
        default=Marginals.BEFORE,
        description="Probabilities among all rules (before), or among those that are left (after).",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        from hierogram.daemon.exports.formats import find_format

        find_format(self.format).check_features(self.features)
        return self

    def resolved(self) -> "ExportOptions":
        """The same, the preset spelled out; a limit that is given stays where it is stricter."""
        if not self.hiero:
            return self
        return self.model_copy(
            update={
                "max_nonterminals": _stricter(self.max_nonterminals, HIERO_MAX_NONTERMINALS),
                "no_adjacent": True,
                "max_source_symbols": _stricter(self.max_source_symbols, HIERO_MAX_SOURCE_SYMBOLS),
                "aligned": True,
                "max_span": _stricter(self.max_span, HIERO_MAX_SPAN),
            }
        )


def _stricter(given: int | None, preset: int) -> int:
    return preset if given is None else min(given, preset)
