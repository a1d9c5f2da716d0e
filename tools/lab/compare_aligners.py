"""Compare alignment error rates and processor time of Hierogram, eflomal and Thot.

    python -m hierogram.tools.lab.compare_aligners gold-en-fr-hansards gold-es-en-collins200+europarl-es-en-5k

The extra `compare` installs eflomal (Östling & Tiedemann 2016) and Thot. The aligners run one after the other, each in
its own process, on the same sentences. Hierogram combines the posteriors of both directions. The links of eflomal are
symmetrized by grow-diag-final-and, and its time does not include this. Thot runs with the defaults of sil-machine:
hidden Markov models, lowercased text, grow-diag-final-and.
"""

import os
import resource
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.learning.alignment.options import AlignOptions
from hierogram.daemon.text.lines import read_sentences, write_lines
from hierogram.samplers.alignment.models.registry import DEFAULT_MODEL, MODELS
from hierogram.samplers.alignment.options import GDFA
from hierogram.tools.alignment_scores import evaluate, read_gold, read_links
from hierogram.tools.lab.measures.results import processor_seconds, run_in_process

EFLOMAL, THOT = "eflomal", "thot"
GOLD = "gold.talp"
DEMO = "demo"


@dataclass(frozen=True, slots=True)
class CorpusFiles:
    """Source files and target files to concatenate, and manual links of the first pairs or None."""

    name: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    gold: str | None


def parse_corpus_files(names: str) -> CorpusFiles:
    """Return the corpus of folders joined by `+`, with the manual links of the first folder.

    A folder contains `corpus.XX` for two languages, and optionally `gold.talp` with manual links. The languages are in
    the order of the first folder's name, such as `gold-en-fr`, or else in alphabetical order. Raises `InputError` if
    the first folder does not have two languages.
    """
    folders = [Path(name) for name in names.split("+")]
    first = folders[0]
    languages = sorted(path.suffix[1:] for path in first.glob("corpus.*") if len(path.suffix) == 3)
    if len(languages) != 2:
        raise InputError(f"{first}: expected corpora in 2 languages, got {len(languages)} ({', '.join(languages)})")
    parts = first.name.split("-")
    if set(languages) <= set(parts):
        languages.sort(key=parts.index)
    files = [tuple(str(folder / f"corpus.{language}") for folder in folders) for language in languages]
    gold = first / GOLD
    name = "+".join(folder.name for folder in folders)
    return CorpusFiles(name, files[0], files[1], str(gold) if gold.is_file() else None)


def demo_corpus(folder: Path) -> CorpusFiles:
    """Write the verses of the demo and their manual links to files in a folder. Returns the corpus."""
    from hierogram.tools.demo.data import read_verses

    verses = list(read_verses())
    write_lines(folder / "corpus.el", (" ".join(verse.source) for verse in verses))
    write_lines(folder / "corpus.en", (" ".join(verse.target) for verse in verses))
    write_lines(folder / GOLD, (" ".join(f"{i}-{j}" for i, j in verse.links) for verse in verses))
    return CorpusFiles(DEMO, (str(folder / "corpus.el"),), (str(folder / "corpus.en"),), str(folder / GOLD))


def align_hierogram(source: Path, target: Path, output: Path, options: AlignOptions) -> None:
    """Align two files with Hierogram, and write the links as Pharaoh lines, like the other aligners."""
    from hierogram.daemon.library.aligning import align

    write_lines(output, align(source, target, options=options).lines())


def align_eflomal(source: Path, target: Path, output: Path) -> None:
    """Align two files with eflomal's model 3 in both directions, and write the symmetrized links."""
    import eflomal
    import numpy as np

    from hierogram.daemon.learning.alignment.aligning import AlignedCorpus
    from hierogram.samplers.alignment.bitext import read_side
    from hierogram.samplers.alignment.symmetrization import symmetrize

    sides = read_side(read_sentences(str(source))), read_side(read_sentences(str(target)))
    with (
        tempfile.TemporaryDirectory() as folder,
        source.open(encoding="utf-8") as s,
        target.open(encoding="utf-8") as t,
    ):
        forward, backward = (str(Path(folder, name)) for name in ("forward", "backward"))
        eflomal.Aligner(model=3).align(s, t, links_filename_fwd=forward, links_filename_rev=backward, quiet=True)
        target_links, source_links = (np.full(len(side.words), -1, np.int16) for side in reversed(sides))
        for pair, directions in enumerate(zip(read_links(forward), read_links(backward), strict=True)):
            for i, j in directions[0]:
                target_links[sides[1].offset[pair] + j] = i
            for i, j in directions[1]:
                source_links[sides[0].offset[pair] + i] = j
    symmetrized = symmetrize(GDFA, target_links, source_links, sides[0].offset, sides[1].offset)
    write_lines(output, AlignedCorpus(symmetrized, np.zeros(len(symmetrized.source), np.float32)).lines())


def align_thot(source: Path, target: Path, output: Path) -> None:
    """Align two files with Thot's hidden Markov models and sil-machine's defaults, and write the links."""
    from machine.corpora import TextFileTextCorpus
    from machine.translation import SymmetrizationHeuristic
    from machine.translation.thot.thot_hmm_word_alignment_model import ThotHmmWordAlignmentModel
    from machine.translation.thot.thot_symmetrized_word_alignment_model import ThotSymmetrizedWordAlignmentModel

    corpus = TextFileTextCorpus(str(source)).align_rows(TextFileTextCorpus(str(target))).lowercase()
    # Use `Any`, because mypy does not find setters that are declared apart from their getters.
    model: Any = ThotSymmetrizedWordAlignmentModel(ThotHmmWordAlignmentModel(), ThotHmmWordAlignmentModel())
    model.heuristic = SymmetrizationHeuristic.GROW_DIAG_FINAL_AND
    model.emit_training_alignments = True
    with model.create_trainer(corpus) as trainer:
        trainer.train()
        trainer.save()
    matrices = (model.get_training_alignment(pair) for pair in range(model.training_alignment_count))
    links = (
        [(i, j) for i in range(matrix.row_count) for j in matrix.get_row_aligned_indices(i)] for matrix in matrices
    )
    write_lines(output, (" ".join(f"{i}-{j}" for i, j in pair_links) for pair_links in links))


def measure(
    corpus: CorpusFiles, aligner: str, seed: int, threads: int, folder: Path, pairs: int | None
) -> tuple[int, float | None, float]:
    """Run an aligner in a new process. Returns pairs, error rate (None without manual links), CPU seconds."""
    source, target, output = folder / "source", folder / "target", folder / "links"
    for path, parts in ((source, corpus.source), (target, corpus.target)):
        lines = b"".join(Path(part).read_bytes() for part in parts).splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:pairs]))
    os.environ["OMP_NUM_THREADS"] = str(threads)
    cpu_seconds = run_in_process(run_aligner, aligner, (source, target, output), seed, threads)
    links = read_links(str(output))
    error_rate = None
    if corpus.gold is not None:
        gold = read_gold(corpus.gold)[:pairs]
        error_rate = evaluate(gold, links[: len(gold)]).aer
    return len(links), error_rate, cpu_seconds


def run_aligner(aligner: str, files: tuple[Path, Path, Path], seed: int, threads: int) -> float:
    """Align the first file with the second, and write the links to the third. Returns processor seconds."""
    align: Callable[[Path, Path, Path], None]
    if aligner == EFLOMAL:
        # The sampler of eflomal is a child process.
        processes, align = resource.RUSAGE_CHILDREN, align_eflomal
    elif aligner == THOT:
        processes, align = resource.RUSAGE_SELF, align_thot
    else:
        options = AlignOptions(model=aligner, seed=seed, threads=threads)
        processes, align = resource.RUSAGE_SELF, partial(align_hierogram, options=options)
        # Compile or load the kernels now, so that the measured time excludes compilation.
        with tempfile.TemporaryDirectory() as folder:
            tiny = Path(folder, "tiny")
            tiny.write_text("a b\na\n")
            align(tiny, tiny, Path(folder, "links"))
    before = processor_seconds(processes)
    align(*files)
    return processor_seconds(processes) - before


def compare(
    corpora: Annotated[
        list[str],
        typer.Argument(
            metavar="FOLDER...",
            help=f"Folders with corpora. FOLDER+FOLDER joins two corpora; {DEMO} is the corpus of `hierogram demo`.",
        ),
    ],
    aligner: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Aligner to run: {EFLOMAL}, {THOT}, {', '.join(MODELS)}; may be repeated.",
            show_default=f"{EFLOMAL}, {DEFAULT_MODEL}",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of Hierogram's aligners.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Threads of Hierogram's aligners and of eflomal.")] = 2,
    first: Annotated[int | None, typer.Option(min=1, help="Use only the first N pairs.", show_default="all")] = None,
) -> None:
    """Print the alignment error rate and the processor seconds of each aligner on each corpus."""
    print("corpus", "pairs", "aligner", "AER", "CPU seconds", sep="\t")
    for folders in corpora:
        with tempfile.TemporaryDirectory() as demo_folder:
            demo = folders == DEMO
            corpus = demo_corpus(Path(demo_folder)) if demo else parse_corpus_files(folders)
            for name in aligner or [EFLOMAL, DEFAULT_MODEL]:
                with tempfile.TemporaryDirectory() as folder:
                    pairs, error_rate, cpu_seconds = measure(corpus, name, seed, threads, Path(folder), first)
                shown_rate = "–" if error_rate is None else f"{error_rate:.4f}"
                print(corpus.name, f"{pairs:,}", name, shown_rate, f"{cpu_seconds:.1f}", sep="\t", flush=True)


if __name__ == "__main__":
    typer.run(compare)
