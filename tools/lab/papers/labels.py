"""Nonterminals refined by word classes at a phrase's edges, beside those that are not: what their grammars translate.

python -m hierogram.tools.lab.papers.labels corpus.zh corpus.en align.gdfa --work labels --chains 2

Classes are learned from the target side of the pairs that are learned from. What is found is kept in the folder, step
by step; the same command goes on where it was interrupted.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated

import typer

from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.exports.options import Counted
from hierogram.storage.options import Option
from hierogram.tools.lab.papers.rivals import TRANSLATION, RivalOptions, RivalTable, say
from hierogram.tools.lab.papers.translations import DEFAULT, System, begin


@dataclass(frozen=True, kw_only=True)
class LabelOptions(RivalOptions):
    """Options of the comparison."""

    classes: Annotated[tuple[str, ...], Option("Numbers of word classes.", metavar="NUMBERS")] = ("2", "4", "8")


class LabelTable(RivalTable):
    """Compare grammars of phrases with labels with that of phrases without."""

    def rivals(self) -> Sequence[Sequence[System]]:
        """Return the grammars of each row, one of each chain. That without labels comes first."""
        assert isinstance(self.wanted, LabelOptions)
        plain = System(TRANSLATION, DEFAULT, Counted.TRANSLATION, features=None)
        rows = [plain, *(replace(plain, name=f"{k} classes", classes=int(k)) for k in self.wanted.classes)]
        return [[replace(row, chain=chain + 1) for chain in range(self.wanted.chains)] for row in rows]


@with_options
def main(
    files: Annotated[list[str], typer.Argument(metavar="SOURCE TARGET [ALIGNMENT]", help="A bitext, tokenised.")],
    wanted: LabelOptions,
) -> None:
    """Learn with and without labels, export, tune, translate, and compare."""
    experiment = begin(files, wanted)
    table = LabelTable(wanted, experiment)
    rows = table.compared([table.row(systems) for systems in table.rivals()])
    (wanted.work / "labels.json").write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    say(rows, experiment.parts, wanted)


if __name__ == "__main__":
    typer.run(main)
