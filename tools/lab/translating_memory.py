"""Memory and seconds of translating with a grammar and a language model of a given size, made up of random words.

    python -m hierogram.tools.lab.translating_memory --rules 1000000 --ngrams 5000000

Each form, text and binary, is opened and translated with in a process of its own; memory is the most that it had.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.tools.lab.measures.results import run_command, temporary_folder, timed

_WORDS = 50_000
_SENTENCES = 50
_LENGTH = 20
_LONGEST = 3
_ORDER = 3
_BIGRAMS = 0.3
"""The share of n-grams that are of two words."""
_KIB_A_MIB = 1024
_NAMES = ("EGivenF", "FGivenE", "LexEGivenF", "LexFGivenE")


Form = dict[str, Any]
"""The cost of a form of the files: MiB at most, processor seconds to open each file, seconds a sentence."""


def measure(rules: int, ngrams: int) -> list[Form]:
    """Make the files, then open and translate in processes of their own."""
    with temporary_folder() as folder:
        random = np.random.default_rng(1)
        grammar, model, text = folder / "grammar.cdec", folder / "target.arpa", folder / "text"
        _write_grammar(grammar, rules, random)
        _write_model(model, ngrams, random)
        text.write_text("".join(f"{line}\n" for line in _lines(_drawn(random, (_SENTENCES, _LENGTH)), "f")))
        packed, binary = folder / "grammar.packed", folder / "target.lm"
        run_command("export", "--format", "packed", "--grammar", str(grammar), "-o", str(packed))
        run_command("lm", "--convert", str(model), "-o", str(binary))
        return [_opened("text", grammar, model, text), _opened("binary", packed, binary, text)]


def _opened(form: str, grammar: Path, model: Path, text: Path) -> Form:
    command = [sys.executable, "-m", __spec__.name, "--child", form, str(grammar), str(model), str(text)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: Form = json.loads(done.stdout)
    return found


def open_and_translate(form: str, grammar: str, model: str, text: str) -> Form:
    """Open both files, translate the text on one thread."""
    from hierogram.daemon.exports.formats.format import DEFAULT_WEIGHTS
    from hierogram.daemon.progress import progress
    from hierogram.tools.translation.fixed_words import Glossary
    from hierogram.tools.translation.grammars import open_grammar
    from hierogram.tools.translation.language_models.files import open_language_model
    from hierogram.tools.translation.opening import TranslationResources
    from hierogram.tools.translation.options import TranslateOptions

    # Kernels are compiled, or loaded from their cache, before anything is timed.
    small = Path(text).with_name("small.cdec")
    small.write_text("[X] ||| a ||| b ||| EGivenF=-1 ||| 0-0\n")
    with progress("read", "lines") as shown:
        open_grammar(str(small), 2, shown)
        model_seconds, opened = timed(lambda: open_language_model(model, shown), time.process_time)
        grammar_seconds, rules = timed(lambda: open_grammar(grammar, 2, shown), time.process_time)
    translator = TranslationResources(TranslateOptions(), dict(DEFAULT_WEIGHTS), opened, Glossary()).translator(rules)
    lines = Path(text).read_text().splitlines()
    translator.translate(lines[0])
    seconds, _ = timed(lambda: [translator.translate(line) for line in lines], time.process_time)
    # Of this process alone: a parent's share at its start is not among it.
    status = Path("/proc/self/status").read_text()
    [most] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return {
        "form": form,
        "mib": int(most.split()[1]) / _KIB_A_MIB,
        "grammar_seconds": grammar_seconds,
        "model_seconds": model_seconds,
        "sentence_seconds": seconds / len(lines),
    }


def _drawn(random: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return numbers of words that are as unequally frequent as in a language: the k-th as 1/k."""
    words: NDArray[np.int64] = np.exp(random.random(shape) * np.log(_WORDS)).astype(np.int64)
    return words


def _lines(words: NDArray[np.int64], letter: str) -> list[str]:
    return [" ".join(f"{letter}{word}" for word in row) for row in words.tolist()]


def _write_grammar(path: Path, rules: int, random: np.random.Generator) -> None:
    """Return rules of up to three words a side, each seventh with a gap; a translation for each word first."""
    words = min(_WORDS, rules // 2)
    sides = [_drawn(random, (rules, _LONGEST)).tolist() for _ in range(2)]
    sizes = random.integers(1, _LONGEST + 1, size=(rules, 2)).tolist()
    features = (-random.random((rules, 4)) * 3).round(4).tolist()
    with path.open("w", encoding="utf-8") as file:
        for k, (source, target, (m, n), own) in enumerate(zip(*sides, sizes, features, strict=True)):
            left = [f"f{k}"] if k < words else [f"f{word}" for word in source[:m]]
            right = [f"e{word}" for word in target[:n]]
            if k >= words and k % 7 == 0:
                left.insert(1, "[X,1]")
                right.append("[X,1]")
            values = " ".join(f"{name}={value}" for name, value in zip(_NAMES, own, strict=True))
            file.write(f"[X] ||| {' '.join(left)} ||| {' '.join(right)} ||| {values} ||| 0-0\n")


def _write_model(path: Path, ngrams: int, random: np.random.Generator) -> None:
    """Return a model of 3-grams, whose longer n-grams begin with shorter ones."""
    words = min(_WORDS, ngrams // 4)
    bigrams = _different(random, int(_BIGRAMS * ngrams), words, np.arange(words))
    trigrams = _different(random, ngrams - words - len(bigrams), words, bigrams)
    with path.open("w", encoding="utf-8") as file:
        counts = (words + 3, len(bigrams), len(trigrams))
        file.write("\\data\\\n" + "".join(f"ngram {n}={count}\n" for n, count in enumerate(counts, 1)))
        file.write("\n\\1-grams:\n-5 <unk> 0\n-99 <s> -0.5\n-2 </s> 0\n")
        file.writelines(f"-3 e{k} -0.4\n" for k in range(words))
        for n, keys in ((2, bigrams), (3, trigrams)):
            file.write(f"\n\\{n}-grams:\n")
            columns = [(keys // words ** (n - 1 - k) % words).tolist() for k in range(n)]
            end = " -0.3\n" if n < _ORDER else "\n"
            file.writelines("-1.5 " + " ".join(f"e{word}" for word in row) + end for row in zip(*columns, strict=True))
        file.write("\n\\end\\\n")


def _different(random: np.random.Generator, wanted: int, words: int, contexts: NDArray[np.int64]) -> NDArray[np.int64]:
    """So many contexts with one word more, all different, as numbers to the base of the words."""
    found = np.zeros(0, np.int64)
    while len(found) < wanted:
        more = random.choice(contexts, wanted) * words + random.integers(words, size=wanted)
        found = np.unique(np.concatenate([found, more]))
    return np.sort(random.choice(found, wanted, replace=False))


def main(
    rules: Annotated[int, typer.Option(min=100, help="Rules of the grammar.")] = 1_000_000,
    ngrams: Annotated[int, typer.Option(min=100, help="n-grams of the language model.")] = 5_000_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Measure memory and seconds of translating."""
    found = measure(rules, ngrams)
    if as_json:
        typer.echo(json.dumps(found))
        return
    typer.echo("form\tMiB\tgrammar, s\tlanguage model, s\tsentence, s")
    for form, mebibytes, *seconds in map(dict.values, found):
        typer.echo("\t".join([form, f"{mebibytes:.0f}", *(f"{value:.3f}" for value in seconds)]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(open_and_translate(*sys.argv[2:])))
    else:
        typer.run(main)
