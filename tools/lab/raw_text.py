"""Compare raw text with tokenized text through every interface of a store, and test the tokenizers.

    python -m hierogram.tools.lab.raw_text interfaces tatoeba-fr-en --work /tmp/raw
    python -m hierogram.tools.lab.raw_text round-trips tatoeba-fr-en/corpus.* bible-nt/nt.*
    python -m hierogram.tools.lab.raw_text round-trips udhr

For `interfaces`, the folder contains `corpus.fr` and `corpus.en`, with tokens separated by spaces. sacremoses converts
the tokens to raw text. One store tokenizes the raw text. Another store receives the text tokenized by sacremoses.

`round-trips` tokenizes and detokenizes the lines of files with their language as suffix. For a folder of texts, it
prints a table by script. Even lines are also detokenized by the orthography learned from odd lines.
"""

import csv
import json
import random
import statistics
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.text.inspection import count_signs
from hierogram.daemon.text.languages import find_language, learn_orthography
from hierogram.daemon.text.lines import write_lines
from hierogram.daemon.text.orthography import SOFT_HYPHEN
from hierogram.tools.lab.measures.results import markdown_table, post, run_module, serving

LANGUAGES = ("fr", "en")
_PAIRS, _HELD_OUT = 12_000, 500
"""Number of training pairs, and number of pairs for tuning and for testing each."""

app = typer.Typer(add_completion=False)


def make_texts(corpus: Path, folder: Path) -> None:
    """Write raw text and its tokens, in both languages, for training, tuning and testing."""
    from sacremoses import MosesDetokenizer, MosesTokenizer

    sides = [(corpus / f"corpus.{language}").read_text().splitlines() for language in LANGUAGES]
    chosen = random.Random(1).sample(range(len(sides[0])), _PAIRS + 2 * _HELD_OUT)
    parts = {"train": chosen[:_PAIRS], "dev": chosen[_PAIRS:-_HELD_OUT], "test": chosen[-_HELD_OUT:]}
    for language, lines in zip(LANGUAGES, sides, strict=True):
        detokenizer, tokenizer = MosesDetokenizer(lang=language), MosesTokenizer(lang=language)
        for part, numbers in parts.items():
            raw = [str(detokenizer.detokenize(lines[k].split())) for k in numbers]
            write_lines(folder / f"{part}.raw.{language}", raw)
            tokens = [tokenizer.tokenize(line, return_str=True, escape=False) for line in raw]
            write_lines(folder / f"{part}.tokens.{language}", tokens)


def _bleu(folder: Path, translations: str, text: bool = False) -> float:
    references, tokenizer = ("test.raw.en", "13a") if text else ("test.tokens.en", "none")
    options = ("--metrics", "bleu", "--tokenizer", tokenizer, "--json")
    [score] = json.loads(run_module("hierogram", "evaluate", translations, "-r", references, *options, folder=folder))
    return float(score["scores"][0]["score"])


def _translate_by_daemon(folder: Path) -> None:
    with serving('store = "raw.db"\n[translating]\nlm = "raw.lm"\n[http]\nport = 0\n', folder=folder) as address:
        lines = (folder / "test.raw.fr").read_text().splitlines()
        translations: list[str] = []
        for start in range(0, len(lines), 100):
            answer = post(address, "/v1/translate", {"sentences": lines[start : start + 100]})
            translations += [sentence["translation"] for sentence in answer["sentences"]]
    write_lines(folder / "served.out", translations)


class RoundTrip(NamedTuple):
    """Results for a text that is tokenized and detokenized."""

    name: str
    script: str
    lines: int
    # Percentage of lines that the rules restore, ignoring kinds of spaces and Unicode normalization.
    restored_by_rules: float
    # Percentage of even lines that are restored exactly with the orthography learned from odd lines.
    restored_after_learning: float


def round_trip(path: Path, language: str) -> RoundTrip:
    """Tokenize and detokenize the lines of a file. If the lines are tokenized, detokenizes them first."""
    rules = find_language(language)
    lines = [line.rpartition("\t")[2] for line in path.read_text().splitlines()]
    if count_signs(lines).is_running is False:
        lines = [rules.join(line.split()) for line in lines]
    lines = [" ".join(filter(None, line.replace(SOFT_HYPHEN, "").split(" "))) for line in lines]
    fitted = find_language(language, learn_orthography(language, lines[::2]))
    texts = [unicodedata.normalize("NFC", line) for line in lines]
    is_unchanged = [_as_spaces(rules.join(rules.tokens(text))) == _as_spaces(text) for text in texts]
    tokens = [fitted.tokens(text) for text in texts]
    is_restored = [
        fitted.join(line_tokens) == line for line_tokens, line in zip(tokens[1::2], lines[1::2], strict=True)
    ]
    scripts = Counter(
        unicodedata.name(letter, "?").split()[0].capitalize() for letter in "".join(texts) if letter.isalpha()
    )
    [(script, _)] = scripts.most_common(1) or [("?", 0)]
    return RoundTrip(path.stem, script, len(texts), _percentage(is_unchanged), _percentage(is_restored))


def _as_spaces(text: str) -> str:
    return " ".join(text.split())


def _percentage(flags: Sequence[bool]) -> float:
    return 100 * sum(flags) / max(1, len(flags))


def languages_in(folder: Path) -> dict[Path, str]:
    """Return each text's language, from the column `bcp47` of `index.tsv` or from the file name."""
    index = folder / "index.tsv"
    rows = csv.DictReader(index.open(), delimiter="\t") if index.exists() else ()
    named = {row["code"]: row["bcp47"] for row in rows}
    return {path: named.get(path.stem, path.stem) for path in sorted(folder.glob("*.txt"))}


def format_by_script(round_trips: Iterable[RoundTrip]) -> str:
    """Return a Markdown table of round trips: a row for each script, and a row for all."""
    scripts: dict[str, list[RoundTrip]] = {}
    for trip in round_trips:
        scripts.setdefault(trip.script, []).append(trip)
    everything = [trip for chosen in scripts.values() for trip in chosen]
    columns = ["script", "texts", "lines", "restored by rules, mean", "lowest by rules"]
    columns += ["restored after learning, mean", "lowest after learning"]
    rows = []
    for script, chosen in [*sorted(scripts.items()), ("all", everything)]:
        cells = [script, str(len(chosen)), f"{sum(trip.lines for trip in chosen):,}"]
        for share in (lambda trip: trip.restored_by_rules, lambda trip: trip.restored_after_learning):
            lowest = min(chosen, key=share)
            cells += [f"{statistics.mean(map(share, chosen)):.1f} %", f"{share(lowest):.1f} % ({lowest.name})"]
        rows.append(cells)
    return markdown_table(columns, rows)


def _round_trips(languages: Mapping[Path, str]) -> Iterator[RoundTrip]:
    """Yield the round trips of texts. Skips texts for which no tokenizer is installed, with a note."""
    for text, language in languages.items():
        try:
            yield round_trip(text, language)
        except UsageError as error:
            print(f"{text.name} skipped: {error}", file=sys.stderr)


@app.command()
def round_trips(
    paths: Annotated[list[Path], typer.Argument(exists=True, help="Files with their language as suffix, or a folder.")],
) -> None:
    """Print the percentage of lines that tokenizing and detokenizing restores, by file or by script."""
    for path in paths:
        if path.is_dir():
            print(format_by_script(_round_trips(languages_in(path))))
        else:
            trip = round_trip(path, path.suffix[1:])
            restored = f"{trip.restored_by_rules:6.2f} % of {trip.lines:,} lines restored"
            learned = f"{trip.restored_after_learning:6.2f} % of the even lines after learning from the odd lines"
            print(f"{path.name:12} {restored}; {learned}")


@app.command()
def interfaces(
    corpus: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Folder of the corpus.")],
    work: Annotated[Path, typer.Option(help="Folder of all results.")],
) -> None:
    """Print BLEU by interface. Do not compare BLEU of tokens with BLEU of text, which sacreBLEU tokenizes."""
    from sacremoses import MosesDetokenizer

    run_command = partial(run_module, "hierogram", folder=work)
    work.mkdir(parents=True, exist_ok=True)
    make_texts(corpus, work)
    for kind, options in (("raw", ("--languages", "fr,en")), ("tokens", ())):
        store = ("--store", f"{kind}.db")
        run_command(*store, "init", *options)
        run_command(*store, "ingest", f"train.{kind}.fr", f"train.{kind}.en")
        run_command(*store, "learn", "--sweeps", "30")
        run_command(*store, "export", "-o", f"{kind}.cdec.gz")
    run_command("lm", "train.tokens.en", "-o", "tokens.lm")
    run_command("lm", "train.raw.en", "-o", "raw.lm", "--store", "raw.db")
    is_same_model = (work / "tokens.lm").read_bytes() == (work / "raw.lm").read_bytes()
    print(f"lm --store raw.db       same file as from tokens: {is_same_model}")
    (work / "bare.cdec.gz").write_bytes((work / "raw.cdec.gz").read_bytes())
    interfaces: dict[str, tuple[str, ...]] = {
        "tokens": ("translate", "tokens.db", "test.tokens.fr", "--lm", "tokens.lm"),
        "raw, not tokenized": ("translate", "tokens.db", "test.raw.fr", "--lm", "tokens.lm", "--tokenized"),
        "translate, to tokens": ("translate", "raw.db", "test.raw.fr", "--lm", "raw.lm", "--no-text"),
        "translate, store": ("translate", "raw.db", "test.raw.fr", "--lm", "raw.lm"),
        "translate, export": ("translate", "raw.cdec.gz", "test.raw.fr", "--lm", "raw.lm"),
        "translate --tokenize": (
            "translate", "bare.cdec.gz", "test.raw.fr", "--lm", "raw.lm", "--tokenize", "fr,en",
        ),
    }  # fmt: skip
    for number, (interface, command) in enumerate(interfaces.items()):
        run_command(*command, "-o", f"{number}.out")
        text = number > 2
        bleu = _bleu(work, f"{number}.out", text)
        print(f"{interface:22}  BLEU {bleu:.2f} of {'text' if text else 'tokens'}", flush=True)
    moses = MosesDetokenizer(lang="en")
    translated = (work / "0.out").read_text().splitlines()
    write_lines(work / "moses.out", [str(moses.detokenize(line.split())) for line in translated])
    print(f"{'tokens, by Moses':22}  BLEU {_bleu(work, 'moses.out', True):.2f} of text")
    tuned = {}
    for kind in ("tokens", "raw"):
        texts = (f"dev.{kind}.fr", "-r", f"dev.{kind}.en", "--lm", f"{kind}.lm", "-o", f"{kind}.toml")
        report = run_command("tune", f"{kind}.db", *texts, "--iterations", "1", "--json")
        tuned[kind] = json.loads(report)["rounds"][0]["bleu"]
    print(f"tune, first round       BLEU {tuned['tokens']:.2f} from tokens, {tuned['raw']:.2f} from raw text")
    tokenization = {"tokens": ["--tokenized"], "raw": ["--tokenize", "fr,en"]}
    links = [
        run_command("align", f"test.{k}.fr", f"test.{k}.en", *link_options) for k, link_options in tokenization.items()
    ]
    print(f"align --tokenize        same links as from tokens: {links[0] == links[1]}")
    # Run the daemon last, because it changes the store by sampling.
    _translate_by_daemon(work)
    print(f"{'/v1/translate':22}  BLEU {_bleu(work, 'served.out', True):.2f} of text")


if __name__ == "__main__":
    app()
