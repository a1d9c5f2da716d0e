"""BLEU of translations with grammars of phrases that are learned from the links of ITG derivations [BC10 §3]."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from hierogram.daemon.alignment.files import read_sentences, write_lines
from hierogram.daemon.decoding.opening import equip
from hierogram.daemon.decoding.requests import TranslateOptions
from hierogram.daemon.decoding.weights import read_weights, write_weights
from hierogram.daemon.progress import progress
from hierogram.daemon.tuning.evaluation import evaluate
from hierogram.daemon.tuning.options import EvaluationOptions
from hierogram.tools.papers.keeping import Kept
from hierogram.tools.papers.splitting import Split
from hierogram.tools.papers.systems import Made, System, grammar_file, learned_store, make_grammar
from hierogram.tools.papers.translations import language_model, translate, tuned_weights

_MAX_SCOPE = 2
_SPAN, _POPS = 20, 200
_ITERATIONS = 5
_RESAMPLES = 1000


def bleu_of(links: Mapping[str, Path], parts: Split, folder: Path, threads: int) -> dict[str, str]:
    """BLEU and half its 95 % interval, as text, by the names of the links.

    From each file of links a store of phrases is learned; posterior means translate. Weights are tuned once, with the
    first grammar; the weight of target words is fitted to each. What the folder has already is taken.
    """
    kept = Kept(folder / "translated.json")
    model = language_model(parts, folder)
    held_out = folder / "held-out.source"
    write_lines(held_out, [*parts.tuning.sources, *parts.test.sources])
    made = []
    for name, path in links.items():
        system = System(name, name.replace(" ", "-").replace("=", "-"))
        grammar = grammar_file(system, folder)

        def make(system: System = system, path: Path = path, grammar: Path = grammar) -> list[int]:
            url = learned_store(folder, system.store, [*parts.files, str(path)], threads)
            return make_grammar(system, url, held_out, grammar, _MAX_SCOPE)

        made.append(Made(system, grammar, kept.find(f"{name}: rules by scope", make, grammar)))
    options = TranslateOptions(lm=str(model), span=_SPAN, pops=_POPS, max_scope=_MAX_SCOPE, min_count=0.0)
    equipment = equip(options)
    tuned = folder / "weights.toml"
    if not tuned.exists():
        write_weights(tuned, tuned_weights(equipment, made[0], parts.tuning, _ITERATIONS, threads))
    equipment = replace(equipment, weights=read_weights(str(tuned)))
    outputs = []
    for one in made:
        own = partial(translate, equipment, one, parts, threads)
        kept.find(f"{one.system.name}: seconds a sentence, weight of words", own, one.output)
        outputs.append((one.system.name, read_sentences(str(one.output))))
    references = [(f"reference {k + 1}", lines) for k, lines in enumerate(parts.test.columns())]
    evaluation = EvaluationOptions(metrics=("bleu",), tokenizer="none", resamples=_RESAMPLES)
    with progress("evaluate", "metrics") as shown:
        [found] = evaluate(outputs, references, evaluation, shown)
    return {score.name: f"{score.score:.2f} ± {(score.high - score.low) / 2:.2f}" for score in found.scores}
