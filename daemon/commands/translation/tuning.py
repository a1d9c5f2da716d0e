"""The command that tunes weights: tune."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hierogram.daemon.commands.common import (
    AsJson,
    StoreUrl,
    grammar_and_sentences,
    interruptible,
    note,
    note_text,
    say_json,
    say_table,
)
from hierogram.daemon.commands.flags import with_options
from hierogram.daemon.commands.grammar import announce_compilation
from hierogram.daemon.decoding.requests import TranslateOptions
from hierogram.daemon.progress import progress
from hierogram.daemon.tuning.options import TuningOptions
from hierogram.storage.options import Option


@dataclass(frozen=True, kw_only=True)
class TuningRun:
    """Where tuned weights go, and what works on them."""

    output: Annotated[
        str, Option("Weights to write, a TOML file for `translate`.", flags=("--output", "-o"), metavar="FILE")
    ]
    threads: Annotated[int, Option("Threads; 0: one a core. The weights do not depend on them.", least=0)] = 0


@with_options
def tune(
    context: typer.Context,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="[GRAMMAR] FILE",
            help="GRAMMAR: as for `translate`; without it, the store. FILE: sentences to tune on, one a line, that the "
            "grammar has not learned from.",
        ),
    ],
    reference: Annotated[
        list[str],
        typer.Option(
            "--reference",
            "-r",
            metavar="FILE",
            help="References, line for line; may be given again. A line that is empty in one has a reference less.",
        ),
    ],
    options: TranslateOptions,
    tuning: TuningOptions,
    run: TuningRun,
    as_json: AsJson = False,
    store: StoreUrl = None,
) -> None:
    """Tune the weights of features to BLEU by pairwise ranking (PRO); scipy is needed (extra `tune`).

    In each round the sentences are translated, and weights are trained that put better candidates above worse ones.
    Sentences and references are divided into tokens as the grammar's store does it, or by --tokenize.
    The weights of the best round are written, with the scores of all rounds. --weights says where to begin; where these
    win, the report says so.
    """
    from hierogram.daemon.tuning.pro import need_scipy

    need_scipy()
    announce_compilation()
    from hierogram.daemon.alignment.files import read_sentences
    from hierogram.daemon.decoding.opening import equip
    from hierogram.daemon.tuning.decoding import GrammarDecoder, split_references
    from hierogram.daemon.tuning.evaluation import check_lines
    from hierogram.daemon.tuning.files import as_plain, write_tuned
    from hierogram.daemon.tuning.tuning import tune as find_weights
    from hierogram.storage.store import open_store

    grammar, stored, sentences = grammar_and_sentences(context, files, store)
    lines = read_sentences(sentences)
    against = [(name, read_sentences(name)) for name in reference]
    check_lines([(sentences, lines)], against)
    with ExitStack() as stack, interruptible("no weights were written"):
        equipment = equip(options)
        if stored:
            rules = equipment.of_store(stack.enter_context(open_store(grammar))).grammar
        else:
            rules = equipment.grammar(grammar)
        with progress("tune", "sentences") as shown:
            decode = GrammarDecoder(
                equipment, rules, lines, shown, best=tuning.best, rounds=tuning.iterations + 1, threads=run.threads
            )
            pipeline = equipment.texts(rules)
            for side, name, own in ((pipeline.source, sentences, lines), *((pipeline.target, *of) for of in against)):
                note_text(side, name, own, options.tokenized)
            divided = ([pipeline.target.tokens(line) for line in own] for _, own in against)
            texts = split_references(divided, len(lines))
            tuned = find_weights(decode, texts, decode.start(), tuning, decode.words)
    inputs = {"grammar": grammar, "lm": options.lm, "sentences": sentences, "references": reference}
    write_tuned(Path(run.output), tuned, decode.by_name, tuning, inputs)
    rounds = [as_plain(iteration) for iteration in tuned.history]
    if as_json:
        made = {"weights": decode.by_name(tuned.weights), "best_round": tuned.best + 1, "start_won": not tuned.best}
        say_json({**made, "rounds": rounds})
        return
    rows = [
        [f"{number}", f"{own['bleu']:.2f}", f"{own['ratio']:.3f}", f"{own['candidates']:,}"]
        for number, own in enumerate(rounds, 1)
    ]
    say_table(["round", "BLEU", "ratio", "candidates"], rows, numeric=range(4))
    note(f"{run.output}: weights of round {tuned.best + 1}, with BLEU {rounds[tuned.best]['bleu']:.2f}")
    if not tuned.best:
        note("the starting weights won: no round translated better, so they are what was written")
