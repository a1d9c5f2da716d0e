"""The section `[workers]` of the daemon's configuration."""

from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.workers.options import Sharing, Workers, parse_blocks, parse_workers
from hierogram.storage.options import constraints, declared

if TYPE_CHECKING:
    from hierogram.samplers.synchronous.sweeps import Blocks


def _declared(name: str) -> Any:
    return Field(default=declared(Sharing)[name].default, **constraints(Sharing, name))


class WorkersSection(BaseModel):
    """Who samples; see [scaling.md](scaling.md). Workers have the threads of `[sampling]` each, one where that is 0."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    workers: str | None = _declared("workers")
    blocks: str | None = _declared("blocks")

    @model_validator(mode="after")
    def _parsed(self) -> Self:
        try:
            self.chosen()
            if self.blocks is not None:
                parse_blocks(self.blocks)
        except UsageError as error:
            raise ValueError(str(error).removeprefix("--")) from error
        return self

    def chosen(self) -> Workers | None:
        """Return which workers are asked for."""
        return None if self.workers is None else parse_workers(self.workers)

    def in_blocks(self) -> "Blocks | None":
        """Return the blocks in which pairs are sampled, where they do not follow from the number of pairs."""
        from hierogram.samplers.synchronous.sweeps import Blocks

        return None if self.blocks is None else Blocks(*parse_blocks(self.blocks))
