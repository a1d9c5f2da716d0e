"""The commands that translate: translate, tune."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hierogram.daemon.commands.common import (
    AsJson,
    grammar_and_sentences,
    interruptible,
    note,
    note_text,
    plural,
    print_json,
    print_table,
)
from hierogram.daemon.commands.flags import Without, with_options
from hierogram.daemon.commands.learning import announce_compilation
from hierogram.daemon.decoding.options import TranslateOptions
from hierogram.daemon.exceptions import ExportError, InputError, UsageError
from hierogram.daemon.progress import progress
from hierogram.daemon.tuning.options import TuningOptions
from hierogram.storage.options import Option, OptionError

if TYPE_CHECKING:
    from hierogram.daemon.decoding.opening import TranslationResources
    from hierogram.daemon.decoding.text_translator import TextTranslation, TextTranslator
    from hierogram.daemon.decoding.translating import Translator


STANDARD = "-"


@dataclass(frozen=True, kw_only=True)
class TranslateOutput:
    """Say what is written of translations."""

    output: Annotated[
        str, Option("Translations to write; .gz or .zst compresses.", flags=("--output", "-o"), metavar="FILE")
    ] = STANDARD
    best: Annotated[
        int, Option("Translations of each sentence; with several, `number ||| words ||| features ||| score`.", least=1)
    ] = 1
    text: Annotated[
        bool | None,
        Option(
            "Text in, text out: words with their spaces, capital letters and tags. With --no-text translations are "
            "tokens.",
            flags=("--text/--no-text",), shown="where text is divided",
        ),
    ] = None  # fmt: skip
    html: Annotated[bool, Option("FILE is one HTML document, and so is its translation.")] = False
    json: Annotated[
        bool, Option("A JSON object a sentence: translations, tokens, features, alignments, derivations.")
    ] = False
    alignments: Annotated[
        Path | None, Option("Links of source and target words, a line a sentence.", metavar="FILE")
    ] = None
    svg: Annotated[Path | None, Option("A picture of each sentence's derivation, N.svg.", metavar="FOLDER")] = None
    threads: Annotated[int, Option("Threads; 0: one a core. The translations do not depend on them.", least=0)] = 0

    def __post_init__(self) -> None:
        """Raise `OptionError` where options contradict each other."""
        if self.html and self.text is False:
            raise OptionError("html", "translations of HTML are text, and --no-text asks for tokens: give one of them")

    def format(self, usual: str) -> str:
        """Return what text is, by these options, or else as is `usual`."""
        if self.html:
            return "html"
        return usual if self.text is None else "text" if self.text else "tokens"


@with_options
def translate(
    context: typer.Context,
    files: Annotated[
        list[str],
        Option(
            "GRAMMAR: an export, of any format of rules, a packed grammar, or a store; without it, the store. "
            "FILE: sentences, one a line; - is standard input.",
            metavar="[GRAMMAR] FILE",
            positional=True,
        ),
    ],
    options: TranslateOptions,
    wanted: TranslateOutput,
) -> None:
    """Translate sentences with a grammar; translations line for line.

    Sentences are divided into tokens as the grammar's store does it, or by --tokenize; then translations are text
    again. A line may hold several sentences; an empty one stays empty. Words that no rule translates alone may be
    passed through. From standard input each line is translated as it comes; with a
    store, by what it has learned until then.
    """
    announce_compilation()
    from hierogram.daemon.decoding.opening import Follower, equip
    from hierogram.daemon.decoding.text_translator import TextTranslator
    from hierogram.storage.store import open_store

    grammar, stored, sentences = grammar_and_sentences(context, files)
    with ExitStack() as stack, interruptible("the rest was not translated"):
        equipment = equip(options)
        if stored:
            follower = Follower(stack.enter_context(open_store(grammar)), equipment)
            translator = follower.refresh()
        else:
            follower = None
            translator = equipment.translator(equipment.grammar(grammar))
        _tell(translator, equipment)
        if options.tokenized and (wanted.text or wanted.html):
            raise UsageError("--tokenized says that the text is tokens, --text and --html that it is not: give one")
        writer = stack.enter_context(_Writer(wanted, sentences))
        if sentences == STANDARD and not wanted.html:
            # Each line as soon as it is there.
            for number, typed in enumerate(iter(sys.stdin.buffer.readline, b""), 1):
                line = typed.decode(errors="replace").rstrip("\r\n")
                if follower is not None:
                    translator = follower.refresh()
                texts = TextTranslator(translator)
                if number == 1:
                    _note_text(texts, wanted, options, "<stdin>", [line])
                format = wanted.format(texts.usual)
                writer.write(
                    number,
                    texts.translate(line, format=format, alternatives=wanted.best - 1, markup=options.markup),
                )
            return
        _translate_file(TextTranslator(translator), sentences, options, writer)


def _note_text(
    texts: "TextTranslator", wanted: TranslateOutput, options: TranslateOptions, name: str, lines: Sequence[str]
) -> None:
    """Note that text looks as if it were not what it is taken for."""
    pipeline = texts.translator.texts if wanted.format(texts.usual) == "tokens" else texts.texts
    note_text(pipeline.source, name, lines, options.tokenized)


def _translate_file(texts: "TextTranslator", sentences: str, options: TranslateOptions, writer: "_Writer") -> None:
    from hierogram.daemon.corpora.lines import read_sentences

    wanted = writer.wanted
    lines = read_sentences(sentences)
    if wanted.html:
        lines = ["\n".join(lines)]
    _note_text(texts, wanted, options, sentences, lines)
    with progress("translate", "sentences") as shown:
        done = texts.translate_all(
            lines,
            format=wanted.format(texts.usual),
            alternatives=wanted.best - 1,
            markup=options.markup,
            threads=wanted.threads,
        )
        for number, translation in enumerate(done, 1):
            writer.write(number, translation)
            shown.update(number, len(lines), number)
    if wanted.output != STANDARD:
        note(f"{wanted.output}: {plural(len(lines), 'sentence')}")


def _tell(translator: "Translator", equipment: "TranslationResources") -> None:
    """Note what of the grammar and of the weights is not used."""
    grammar = translator.grammar
    if grammar.circular:
        note(f"{plural(grammar.circular, 'rule')} left out whose source side is empty or a single nonterminal")
    if grammar.wide:
        note(f"{plural(grammar.wide, 'rule')} left out of a larger scope: --max-scope takes more")
    if unused := equipment.unused(grammar):
        note(f"{equipment.options.weights}: the grammar has no feature {', '.join(unused)}")


class _Writer:
    """Writes translations in what was asked for, in order; a context manager."""

    def __init__(self, wanted: TranslateOutput, name: str) -> None:
        self.wanted = wanted
        self._name = name
        self._stack = ExitStack()
        self._put: Any = None
        self._links: Any = None

    def __enter__(self) -> "_Writer":
        from hierogram.daemon.compressing import written

        wanted = self.wanted
        if wanted.output != STANDARD:
            self._put = self._stack.enter_context(written(Path(wanted.output)))
        if wanted.alignments is not None:
            self._links = self._stack.enter_context(written(wanted.alignments))
        if wanted.svg is not None:
            try:
                wanted.svg.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ExportError(f"{wanted.svg}: cannot be made: {error.strerror or error}") from error
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def write(self, number: int, translation: "TextTranslation") -> None:
        """The translations of line `number`."""
        parts = translation.translation.parts
        if parts > 1 and not translation.paragraphs:
            words = plural(len(translation.translation.source), "word")
            note(f"{self._name}: line {number} has {words}: translated in {parts} parts")
        lines = self._lines(number, translation)
        if self._put is None:
            sys.stdout.write("".join(line + "\n" for line in lines))
            sys.stdout.flush()
        else:
            self._put.write("".join(line + "\n" for line in lines).encode())
        if self._links is not None:
            self._links.write((" ".join(f"{i}-{j}" for i, j in translation.alignment()) + "\n").encode())
        if self.wanted.svg is not None and translation.candidates:
            self._draw(self.wanted.svg / f"{number}.svg", number, translation)

    def _lines(self, number: int, translation: "TextTranslation") -> Sequence[str]:
        if self.wanted.json:
            import json

            from hierogram.daemon.decoding.text_translator import as_plain

            return [json.dumps({"line": number} | as_plain(translation), ensure_ascii=False)]
        if self.wanted.best == 1:
            return [translation.text]
        return [
            f"{number} ||| {text} ||| "
            + " ".join(f"{name}={value:.9g}" for name, value in candidate.features.items())
            + f" ||| {candidate.score:.9g}"
            for text, candidate in zip(translation.texts, translation.candidates, strict=False)
        ]

    def _draw(self, path: Path, number: int, translation: "TextTranslation") -> None:
        from hierogram.daemon.grammar.drawing import draw

        try:
            path.write_text(draw(translation.derivation()), encoding="utf-8")
        except InputError as error:
            note(f"{self._name}: line {number}: {error}")
        except OSError as error:
            raise ExportError(f"{path}: cannot be written: {error.strerror or error}") from error


@with_options
def tune(
    context: typer.Context,
    files: Annotated[
        list[str],
        Option(
            "GRAMMAR: as for `translate`; without it, the store. FILE: sentences to tune on, one a line, that the "
            "grammar has not learned from.",
            metavar="[GRAMMAR] FILE",
            positional=True,
        ),
    ],
    reference: Annotated[
        list[str],
        Option(
            "References, line for line; may be given again. A line that is empty in one has a reference less.",
            metavar="FILE",
            flags=("--reference", "-r"),
        ),
    ],
    options: Annotated[TranslateOptions, Without(("glossary", "markup"))],
    tuning: TuningOptions,
    output: Annotated[
        str, Option("Weights to write, a TOML file for `translate`.", flags=("--output", "-o"), metavar="FILE")
    ],
    threads: Annotated[int, Option("Threads; 0: one a core. The weights do not depend on them.", least=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Tune the weights of features to BLEU by pairwise ranking (PRO); scipy is needed (extra `tune`).

    In each round the sentences are translated, and weights are trained that put better candidates above worse ones.
    Sentences and references are divided into tokens as the grammar's store does it, or by --tokenize.
    The weights of the best round are written, with the scores of all rounds. --weights says where to begin; where these
    win, the report says so.
    """
    from hierogram.daemon.tuning.tuning import need_scipy

    need_scipy()
    announce_compilation()
    from hierogram.daemon.corpora.lines import read_sentences
    from hierogram.daemon.decoding.opening import equip
    from hierogram.daemon.tuning.evaluation import check_lines
    from hierogram.daemon.tuning.runs import GrammarDecoder, as_plain, split_references, write_tuned
    from hierogram.daemon.tuning.tuning import tune as find_weights
    from hierogram.storage.store import open_store

    grammar, stored, sentences = grammar_and_sentences(context, files)
    lines = read_sentences(sentences)
    against = [(name, read_sentences(name)) for name in reference]
    check_lines([(sentences, lines)], against)
    with ExitStack() as stack, interruptible("no weights were written"):
        equipment = equip(options)
        if stored:
            rules = equipment.of_store(stack.enter_context(open_store(grammar)))[0]
        else:
            rules = equipment.grammar(grammar)
        with progress("tune", "sentences") as shown:
            decode = GrammarDecoder(
                equipment, rules, lines, shown, best=tuning.best, rounds=tuning.iterations + 1, threads=threads
            )
            pipeline = equipment.texts(rules)
            for side, name, own in ((pipeline.source, sentences, lines), *((pipeline.target, *of) for of in against)):
                note_text(side, name, own, options.tokenized)
            divided = ([pipeline.target.tokens(line) for line in own] for _, own in against)
            texts = split_references(divided, len(lines))
            tuned = find_weights(decode, texts, decode.start(), tuning, decode.words)
    inputs = {"grammar": grammar, "lm": options.lm, "sentences": sentences, "references": reference}
    write_tuned(Path(output), tuned, decode.by_name, tuning, inputs)
    rounds = [as_plain(iteration) for iteration in tuned.history]
    if as_json:
        made = {"weights": decode.by_name(tuned.weights), "best_round": tuned.best + 1, "start_won": not tuned.best}
        print_json({**made, "rounds": rounds})
        return
    rows = [
        [f"{number}", f"{own['bleu']:.2f}", f"{own['ratio']:.3f}", f"{own['candidates']:,}", f"{own['sentences']:,}"]
        for number, own in enumerate(rounds, 1)
    ]
    print_table(["round", "BLEU", "ratio", "candidates", "sentences"], rows, numeric=range(5))
    note(f"{output}: weights of round {tuned.best + 1}, with BLEU {rounds[tuned.best]['bleu']:.2f}")
    if not tuned.best:
        note("the starting weights won: no round translated better, so they are what was written")
