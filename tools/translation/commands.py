"""Commands for translation, language models, tuning and evaluation."""

import sys
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.cli.common import (
    advise_tokenization,
    files_or_input,
    grammar_and_sentences,
    interruptible,
    named_store,
    open_chosen_store,
    plural,
    print_json,
    print_note,
    print_table,
)
from hierogram.daemon.cli.flags import Exclude, with_options
from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.daemon.progress import progress
from hierogram.daemon.shared_options import OUTPUT, REFERENCE, STANDARD_STREAM, AsJson, Threads, Tokenize, Tokenized
from hierogram.storage.options import Option, OptionError
from hierogram.tools.translation.options import (
    BEST,
    NO_MODEL,
    EstimationOptions,
    EvaluationOptions,
    TranslateOptions,
    TuningOptions,
)

if TYPE_CHECKING:
    from hierogram.tools.translation.library import Decoder
    from hierogram.tools.translation.text_translator import TextTranslation


@dataclass(frozen=True, kw_only=True)
class TranslateOutput:
    """Options for the output of translations."""

    output: Annotated[str, OUTPUT] = STANDARD_STREAM
    best: Annotated[int, BEST] = 1
    text: Annotated[
        bool | None,
        Option(
            "Translate text to text, with its spacing, capital letters and tags. With --no-text, translations are "
            "tokens.",
            flags=("--text/--no-text",), shown="--text if the store or --tokenize tokenizes text",
        ),
    ] = None  # fmt: skip
    html: Annotated[bool, Option("FILE is an HTML document.")] = False
    as_json: AsJson = False
    alignments: Annotated[Path | None, Option("Write word links to FILE, one line per input line.", metavar="FILE")] = (
        None
    )
    threads: Threads = None

    def __post_init__(self) -> None:
        if self.html and self.text is False:
            raise OptionError("html", "cannot be combined with --no-text")

    def format(self, default: str) -> str:
        """Return the selected format of `TextTranslator.translate`, or `default` if none is selected."""
        if self.html:
            return "html"
        return default if self.text is None else "text" if self.text else "tokens"


@with_options
def translate(
    context: typer.Context,
    options: TranslateOptions,
    output_options: TranslateOutput,
    files: Annotated[
        list[str] | None,
        Option(
            "GRAMMAR: an export of rules, a packed grammar, or a store. Default: the store. FILE: sentences, one per "
            "line. Default: standard input (-).",
            metavar="[GRAMMAR] [FILE]",
            positional=True,
        ),
    ] = None,
) -> None:
    """Translate sentences, line by line.

    Sentences are tokenized as in the store of the grammar, or by --tokenize, and translations are detokenized. A line
    can contain several sentences; empty lines stay empty. Unknown words are translated like known words with a similar
    spelling (--oov-similarity) or like the parts of a compound, or passed through. Standard input is translated line by
    line, with the newest grammar of the store.
    """
    from hierogram.daemon.text.lines import STANDARD_INPUT_NAME, read_sentences
    from hierogram.tools.translation.grammars import is_grammar
    from hierogram.tools.translation.library import Decoder

    with ExitStack() as stack, interruptible("the remaining lines were not translated"):
        grammar, sentences = grammar_and_sentences(context, files or (), stack, is_grammar)
        if options.tokenized and (output_options.text or output_options.html):
            raise UsageError("--tokenized cannot be combined with --text or --html")
        decoder = Decoder(grammar, options=options)
        _print_notes(decoder)
        writer = _TranslationWriter(output_options, sentences, stack)
        text_translator = decoder.text_translator()
        format = output_options.format(text_translator.default_format)
        side = text_translator.input_pipeline(format).source
        if sentences == STANDARD_STREAM and not output_options.html:
            # Do not read ahead, so that each typed line is translated at once.
            for number, line in enumerate(_typed_lines(), 1):
                if number == 1:
                    advise_tokenization(side, STANDARD_INPUT_NAME, [line], options.tokenized)
                writer.write(number, decoder.translate(line, output_options.best, format=format))
            return
        lines = read_sentences(sentences)
        if output_options.html:
            lines = ["\n".join(lines)]
        advise_tokenization(side, sentences, lines, options.tokenized)
        with progress("translate", "sentences") as bar:
            translations = decoder.translate_all(lines, output_options.best, output_options.threads, format=format)
            for number, translation in enumerate(translations, 1):
                writer.write(number, translation)
                bar.update(number, len(lines), number)
        if output_options.output != STANDARD_STREAM:
            print_note(f"{output_options.output}: {plural(len(lines), 'sentence')}")


def _typed_lines() -> Iterator[str]:
    """Yield the lines of standard input one by one, without reading ahead. A note reports invalid UTF-8."""
    from hierogram.daemon.text.lines import STANDARD_INPUT_NAME, check_text

    noted = False
    for number, typed in enumerate(iter(sys.stdin.buffer.readline, b""), 1):
        if number == 1:
            check_text(typed, STANDARD_INPUT_NAME)
            if typed.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
                raise InputError(
                    f"{STANDARD_INPUT_NAME}: UTF-16 is not supported: convert it with `iconv -f UTF-16 -t UTF-8`"
                )
        text = typed.decode(errors="replace")
        if not noted and text.encode() != typed:
            noted = True
            print_note(f"{STANDARD_INPUT_NAME}, line {number}: not UTF-8: invalid bytes are translated as U+FFFD")
        yield text.lstrip("\ufeff").rstrip("\r\n")


def _print_notes(decoder: "Decoder") -> None:
    translator, resources = decoder.translator(), decoder.resources
    grammar, options = translator.grammar, resources.options
    if resources.store_model is not None:
        print_note(f"language model: {resources.model_name()}{'' if options.lm else ' (use --lm for another)'}")
    elif resources.model is None and options.lm != NO_MODEL:
        print_note("no language model: for better translations, build a model with `hierogram lm` and pass it as --lm")
    if grammar.circular:
        omitted = plural(grammar.circular, "rule")
        print_note(f"omitted {omitted} with a source side that is empty or a single nonterminal")
    if grammar.wide:
        print_note(f"omitted {plural(grammar.wide, 'rule')} above --max-scope")
    features = translator.feature_names
    unused = sorted(name for name, weight in resources.weights.items() if weight and name not in features)
    if unused and options.weights is not None:
        print_note(f"{options.weights}: the grammar has no feature {', '.join(unused)}")


class _TranslationWriter:
    def __init__(self, options: TranslateOutput, input_name: str, stack: ExitStack) -> None:
        from hierogram.daemon.files import open_output

        self._options = options
        self._input_name = input_name
        output, links = options.output, options.alignments
        self._file = None if output == STANDARD_STREAM else stack.enter_context(open_output(Path(output)))
        self._links = None if links is None else stack.enter_context(open_output(links))

    def write(self, number: int, translation: "TextTranslation") -> None:
        if translation.divided_sentences:
            words = plural(len(translation.translation.source), "word")
            division = f"in {len(translation.translation.decoded_parts)} parts"
            if translation.paragraphs:
                division = f"{plural(translation.divided_sentences, 'sentence')} in parts"
            print_note(f"{self._input_name}, line {number}: {words}, translated {division}")
        lines = "".join(line + "\n" for line in self._lines(number, translation))
        if self._file is None:
            sys.stdout.write(lines)
            sys.stdout.flush()
        else:
            self._file.write(lines.encode())
        if self._links is not None:
            self._links.write((" ".join(f"{i}-{j}" for i, j in translation.alignment()) + "\n").encode())

    def _lines(self, number: int, translation: "TextTranslation") -> Sequence[str]:
        if self._options.as_json:
            import json

            from hierogram.tools.translation.text_translator import as_plain

            return [json.dumps({"line": number} | as_plain(translation), ensure_ascii=False)]
        if self._options.best == 1:
            return [translation.text]
        return [
            f"{number} ||| {text} ||| "
            + " ".join(f"{name}={value:.9g}" for name, value in candidate.features.items())
            + f" ||| {candidate.score:.9g}"
            for text, candidate in zip(translation.texts, translation.candidates, strict=False)
        ]


@with_options
def tune(
    context: typer.Context,
    output: Annotated[str, OUTPUT],
    options: Annotated[TranslateOptions, Exclude(("glossary", "markup"))],
    tuning: TuningOptions,
    files: Annotated[
        list[str] | None,
        Option(
            "GRAMMAR: as in `translate`. Default: the store. FILE: sentences to tune on, one per line, not used for "
            "learning. Default: held-out pairs of the store.",
            metavar="[GRAMMAR] [FILE]",
            positional=True,
        ),
    ] = None,
    reference: Annotated[list[str] | None, REFERENCE] = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Tune feature weights for BLEU. Uses pairwise ranking (PRO) and requires scipy (extra `tune`).

    Each round translates the sentences and trains weights that rank better candidates above worse ones. Sentences and
    references are tokenized as in the store of the grammar, or by --tokenize. The weights of the best round are
    rescaled and written, with the scores of all rounds. --weights sets the starting weights. Without files, some pairs
    of the store are held out for tuning: they are removed from a copy of the store, and the language model is built
    from the remaining pairs.
    """
    from hierogram.tools.translation.grammars import is_grammar
    from hierogram.tools.translation.tuning_runs import tune as find_weights

    with ExitStack() as stack, interruptible("no weights were written"):
        if files:
            if not reference:
                raise UsageError("FILE requires references: -r FILE")
            grammar, sentences = grammar_and_sentences(context, files, stack, is_grammar, needs_file=True)
        elif options.lm is not None:
            raise UsageError("--lm requires FILE: without it, the language model is built from the pairs of the store")
        else:
            grammar, sentences = stack.enter_context(open_chosen_store(context)), None
        tuned = find_weights(
            grammar,
            sentences,
            reference or [],
            output,
            options=tuning,
            translate=options,
            threads=threads,
            advise=print_note,
        )
    if as_json:
        print_json(tuned._asdict())
        return
    rows = [
        [f"{k}", f"{row['bleu']:.2f}", f"{row['ratio']:.3f}", f"{row['candidates']:,}", f"{row['sentences']:,}"]
        for k, row in enumerate(tuned.rounds, 1)
    ]
    print_table(["round", "BLEU", "ratio", "candidates", "sentences"], rows, numeric=range(5))
    bleu = tuned.rounds[tuned.best_round - 1]["bleu"]
    print_note(f"{output}: weights of round {tuned.best_round}, with BLEU {bleu:.2f}")
    if tuned.start_is_best:
        print_note("no round improved on the starting weights: they were rescaled and written")


@with_options
def lm(
    context: typer.Context,
    output: Annotated[list[str], OUTPUT],
    options: EstimationOptions,
    files: Annotated[
        list[str] | None,
        Option(
            "Text with one sentence per line. Compressed files are decompressed. Default: standard input (-).",
            metavar="[FILE]...",
            positional=True,
        ),
    ] = None,
    tokenize: Tokenize = None,
    tokenized: Tokenized = False,
    convert: Annotated[bool, Option("Convert FILE, a language model, between the ARPA and the binary format.")] = False,
    as_json: AsJson = False,
) -> None:
    """Estimate an n-gram language model. Uses interpolated modified Kneser-Ney smoothing.

    --output may be repeated. Files with the suffix .arpa, .gz or .zst are in ARPA format; other files are in the binary
    format that the decoder maps into memory.

    Text is split at spaces and tabs, or tokenized by --tokenize or as in --store. Empty lines are skipped; <s> and </s>
    are added. --memory limits the memory for counting; larger data are sorted in files beside the output.
    """
    if convert and (len(files or ()) != 1 or options != EstimationOptions() or tokenize is not None or tokenized):
        raise UsageError("--convert requires exactly one FILE and cannot be combined with options of estimation")
    from hierogram.daemon.library.store import open
    from hierogram.tools.translation.estimation import EstimationReport
    from hierogram.tools.translation.language_models import convert as convert_model
    from hierogram.tools.translation.library import lm as estimate

    files = files_or_input(files, "sentences")
    with interruptible("no language model was written"), ExitStack() as stack:
        if convert:
            model = convert_model(files[0], [*map(Path, output)], stack.enter_context(progress("lm", "n-grams")))
            report = EstimationReport(0, 0, model.counts(), 0, [])
        else:
            url = named_store(context)
            store = None if url is None else stack.enter_context(open(url))
            report = estimate(
                files, output, tokenize=tokenize, tokenized=tokenized, store=store, options=options, advise=print_note
            )
    for order in report.without_discounts:
        print_note(f"the text is too small to estimate the discounts of {order}-grams: using 0.5, 1 and 1.5")
    if as_json:
        print_json({"outputs": output, **report._replace(beginning=())._asdict()})
        return
    ngrams = " + ".join(f"{number:,}" for number in report.ngrams)
    unknown = f", {report.unknown:,} of them <unk>" if report.unknown else ""
    text = f" of {plural(report.sentences, 'sentence')}, {plural(report.words, 'word')}{unknown}"
    for name in output:
        print_note(f"{name}: {ngrams} n-grams" + ("" if convert else text))


TRANSLATIONS, LINKS, LINKS_FROM_1, TREES = "translations", "links", "links-from-1", "trees"
_KINDS = {
    TRANSLATIONS: "BLEU, chrF, TER",
    LINKS: "Pharaoh lines; links of the reference are sure, `i-j`, or possible, `ipj`",
    LINKS_FROM_1: "like links, with a reference that counts words from 1",
    TREES: "bracketing scores of EVALB with COLLINS.prm",
}


@with_options
def evaluate(
    reference: Annotated[list[str], REFERENCE],
    files: Annotated[
        list[str] | None,
        Option(
            "Files of translations, links or trees, one per line. Later files of translations are compared with the "
            "first. Default: standard input (-).",
            metavar="[FILE]...",
            positional=True,
        ),
    ] = None,
    *,
    of: Annotated[str, Option("Content of the files", values=_KINDS)] = TRANSLATIONS,
    options: EvaluationOptions,
    as_json: AsJson = False,
) -> None:
    """Evaluate translations, links or trees. Compares them with references, or with manual links or trees.

    Translations: BLEU, chrF and TER of sacrebleu (extra `evaluate`), with their signatures. The column ± is half of the
    95 % confidence interval, and p is the p-value of the difference from the first translation. Links: alignment error
    rate, precision and recall on the pairs with manual links. Trees: labeled precision, recall, F1, exact matches and
    tagging accuracy, without functional tags and traces.
    """
    files = files_or_input(files, of)
    if of == TRANSLATIONS:
        _evaluate_translations(files, reference, options, as_json)
        return
    if len(files) != 1 or len(reference) != 1 or options != EvaluationOptions():
        raise UsageError(f"--of {of} requires one FILE and one --reference, without --metrics and --tokenizer")
    if of in (LINKS, LINKS_FROM_1):
        _evaluate_links(reference[0], files[0], of == LINKS_FROM_1, as_json)
    else:
        _evaluate_trees(reference[0], files[0], as_json)


def _evaluate_translations(
    translations: list[str], reference: list[str], options: EvaluationOptions, as_json: bool
) -> None:
    from hierogram.tools.translation.library import evaluate as compare

    with interruptible("nothing was compared"):
        scores = compare(translations, reference, options=options)
    if as_json:
        print_json([{**metric._asdict(), "scores": [score._asdict() for score in metric.scores]} for metric in scores])
        return
    rows = [[name] for name in translations]
    for metric in scores:
        for row, score in zip(rows, metric.scores, strict=True):
            p = "" if score.p is None else f"{score.p:.3f}"
            row += [f"{score.score:.2f}", f"{(score.high - score.low) / 2:.2f}", p]
    columns = ["translation", *(title for metric in scores for title in (metric.metric, "±", "p"))]
    print_table(columns, rows, numeric=range(1, len(columns)))
    for metric in scores:
        print(f"{metric.metric}: {metric.signature}")


def _evaluate_links(gold: str, hypothesis: str, one_based: bool, as_json: bool) -> None:
    from hierogram.tools.alignment_scores import evaluate_links

    result = evaluate_links(hypothesis, gold, one_based=one_based)
    for note in result.notes:
        print_note(str(note))
    if as_json:
        print_json(asdict(result))
        return
    print(f"AER {result.aer:.4f}  precision {result.precision:.4f}  recall {result.recall:.4f}")
    manual = f"{result.sure:,} sure, {result.possible:,} possible"
    print(f"{plural(result.pairs, 'pair')}, {plural(result.links, 'link')}; manual: {manual}")


def _evaluate_trees(gold: str, hypothesis: str, as_json: bool) -> None:
    from hierogram.tools.treebanks.evaluation import CUTOFF_WORDS
    from hierogram.tools.treebanks.library import evaluate_trees

    result = evaluate_trees(hypothesis, gold)
    if as_json:
        print_json({which: asdict(score) for which, score in result.items()})
        return
    for which, score in (("all sentences", result["all"]), (f"up to {CUTOFF_WORDS} words", result["up_to_cutoff"])):
        print(
            f"{which}: {score.sentences:,}  precision {score.precision:.4f}  recall {score.recall:.4f}  "
            f"F1 {score.f1:.4f}  exact {score.exact:.4f}  tagging {score.tagging:.4f}"
        )
