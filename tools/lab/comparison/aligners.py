"""Other aligners, run on files: eflomal (Östling & Tiedemann 2016) and fast_align (Dyer et al. 2013)."""

import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hierogram.daemon.text.lines import read_sentences, write_lines
from hierogram.tools.alignment_scores import read_links

if TYPE_CHECKING:
    from hierogram.daemon.learning.stored_links import Links
    from hierogram.samplers.alignment.bitext import Side

EFLOMAL, FAST_ALIGN = "eflomal", "fast_align"


def run_eflomal(source: Path, target: Path, forward: Path, backward: Path) -> float:
    """Write the links of two files by eflomal's model 3, in both directions; returns the seconds."""
    import eflomal

    started = time.perf_counter()
    with source.open(encoding="utf-8") as s, target.open(encoding="utf-8") as t:
        eflomal.Aligner(model=3).align(
            s, t, links_filename_fwd=str(forward), links_filename_rev=str(backward), quiet=True
        )
    return time.perf_counter() - started


def run_fast_align(source: Path, target: Path, forward: Path, backward: Path) -> None:
    """Write the links of two files by fast_align with its recommended options, in both directions."""
    joined_file = forward.with_name("both")
    pairs = zip(read_sentences(str(source)), read_sentences(str(target)), strict=True)
    write_lines(joined_file, (f"{source_line} ||| {target_line}" for source_line, target_line in pairs))
    for path, options in ((forward, ()), (backward, ("-r",))):
        command = [FAST_ALIGN, "-i", str(joined_file), "-d", "-o", "-v", *options]
        path.write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout, encoding="utf-8")


def read_directions(sides: "tuple[Side, Side]", forward: Path, backward: Path) -> "Links":
    """Read the link files of both directions: the source position of each target word, or -1, and the reverse."""
    import numpy as np

    source, target = sides
    target_links, source_links = (np.full(len(side.words), -1, np.int16) for side in (target, source))
    for pair, (forward_links, backward_links) in enumerate(
        zip(read_links(str(forward)), read_links(str(backward)), strict=True)
    ):
        for i, j in forward_links:
            target_links[target.offset[pair] + j] = i
        for i, j in backward_links:
            source_links[source.offset[pair] + i] = j
    return target_links, source_links
