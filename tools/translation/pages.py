"""Translation page with highlighted links, rules, similar pairs, and a form for corrections."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from anyio import to_thread
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from hierogram.daemon.exceptions import BusyError, DaemonError, DeadlineError, InputError
from hierogram.daemon.web.pages.rendering import PageContext, build_url, split_symbols
from hierogram.daemon.web.protocol.access import COOKIE
from hierogram.daemon.web.protocol.bodies import confirmed_form, query_values
from hierogram.daemon.web.protocol.problems import ProblemError
from hierogram.storage.browsing.details import count_uses
from hierogram.storage.browsing.reader import ReadTransaction
from hierogram.tools.translation.web import WebTranslator

if TYPE_CHECKING:
    from hierogram.tools.translation.text_translator import TextTranslation

MAX_TEXT_LENGTH = 5_000
_SIMILAR_PAIRS = 5
_MAX_WORDS = 200
"""Maximum number of words of a text in the search for similar pairs."""
_CORRECTION_PATH = "/translate/correct"
_GLUE_SIDE = "[X,1] [X,2]"
"""Source side of the glue rule, which has no words to show."""


class _DisplayedWord(NamedTuple):
    """Displayed word: preceding text, word, key, and the keys of linked words."""

    before: str
    text: str
    key: str
    partners: str


class TranslatedPhrase(NamedTuple):
    """Phrase, its translation, and the keys of the words of both.

    `source` and `target` are the sides of the rule used. `stored` is True if the store has this rule.
    """

    text: str
    translation: str
    source: str
    target: str
    stored: bool
    keys: str


def translation_routes(page: PageContext, shared: WebTranslator) -> APIRouter:
    """Return the routes of the translation page."""
    router, threads = APIRouter(), page.threads

    @router.get("/translate")
    @router.get("/translate.json")
    async def translate_page(request: Request) -> Response:
        """Return the translation form, with the translation of a given text."""
        parameters = query_values(request, "q", "corrected")
        typed = parameters.get("q", "")
        content: dict[str, Any] = {
            "text": typed,
            "translation": "",
            "paragraphs": [],
            "corrections": [],
            "position": None,
            "language_model": None,
            "sql": [],
            "_problem": None,
            "_max_length": MAX_TEXT_LENGTH,
            "_corrected": parameters.get("corrected"),
            "_correct": _CORRECTION_PATH,
            "_form_token": page.sessions.form_token(request.cookies.get(COOKIE), _CORRECTION_PATH),
            "_near": build_url("/translate/near", q=typed),
        }
        if len(typed) > MAX_TEXT_LENGTH:
            content["_problem"] = f"the text has {len(typed):,} characters, the limit is {MAX_TEXT_LENGTH:,}"
        elif typed.strip():
            try:
                content |= await threads.translations.run(lambda: translated(typed), request)
            except (BusyError, DeadlineError):
                raise
            except (DaemonError, ProblemError) as error:
                content["_problem"] = error.detail if isinstance(error, ProblemError) else str(error)
        return await to_thread.run_sync(page.render, request, "translate", content)

    def translated(typed: str) -> dict[str, Any]:
        translator, position = shared.newest()
        translation = translator.translate(typed, format="text")
        with page.reader.read() as transaction:
            settings = transaction.settings()
            return {
                "translation": translation.text,
                "paragraphs": _paragraphs(transaction, translation),
                "corrections": [shared.corrections.find(item.text) for item in translation.paragraphs],
                "position": position,
                "language_model": shared.language_model(),
                "_symbols": lambda side: split_symbols(side, settings),
                "sql": transaction.statements,
            }

    @router.get("/translate/near")
    @router.get("/translate/near.json")
    async def near_pairs(request: Request) -> Response:
        """Return stored pairs that together cover most of a text."""
        typed = query_values(request, "q").get("q", "")
        # Use the threads for translations, because the first use reads the whole grammar and would block other pages.
        content = await threads.translations.run(lambda: near(typed), request)
        return await to_thread.run_sync(page.render, request, "translate_near", content)

    def near(typed: str) -> dict[str, Any]:
        # Imported here because translating does not need it.
        from hierogram.tools.evidence.options import EvidenceOptions
        from hierogram.tools.evidence.retrieval import find_evidence

        translator, _ = shared.newest()
        words = " ".join(translator.pipeline.source.tokens(typed[:MAX_TEXT_LENGTH]).split()[:_MAX_WORDS])
        options = EvidenceOptions(pairs=_SIMILAR_PAIRS, rules=0, tokenized=True)
        with page.reader.read() as transaction:
            pairs = find_evidence(transaction, words, options).pairs if words else []
            return {
                "text": typed,
                "pairs": [
                    {
                        "id": item.id,
                        "corpus": item.corpus,
                        "source": item.source,
                        "target": item.target,
                        "source_text": translator.pipeline.source.detokenize_stored(item.source),
                        "target_text": translator.pipeline.target.detokenize_stored(item.target),
                    }
                    for item in pairs
                ],
                "sql": transaction.statements,
                "_back": build_url("/translate", q=typed),
            }

    @router.post(_CORRECTION_PATH)
    async def correct(request: Request) -> Response:
        """Store a corrected translation as a pair."""
        values = await confirmed_form(request, page.sessions)
        pair = tuple(" ".join(values.get(name, "").split()) for name in ("source", "target"))
        try:
            await threads.run_change(lambda: shared.corrections.put(pair[0], pair[1], "page"))
            outcome = "stored"
        except InputError:
            outcome = "refused"
        back = build_url("/translate", q=values.get("q") or pair[0], corrected=outcome)
        return RedirectResponse(back, HTTPStatus.SEE_OTHER)

    return router


def _paragraphs(transaction: ReadTransaction, translation: "TextTranslation") -> list[dict[str, Any]]:
    links = translation.alignment()
    uses = translation.derivation()
    stored = count_uses(transaction, {(use.source, use.target) for use in uses})
    paragraphs = []
    for paragraph in translation.paragraphs:
        (first, last), begin, spans = paragraph.sources, paragraph.targets[0], paragraph.text_spans
        own_links = [(i - first, j - begin) for i, j in links if first <= i < last]
        partners: dict[str, list[str]] = defaultdict(list)
        for i, j in own_links:
            partners[f"s{i}"].append(f"t{j}")
            partners[f"t{j}"].append(f"s{i}")
        phrases = []
        for use in sorted(uses, key=lambda use: (use.source_span[0], -use.source_span[1])):
            (i, k), (j, m) = use.source_span, use.target_span
            if not first <= i < last or use.source == _GLUE_SIDE:
                continue
            keys = [f"s{n - first}" for n in range(i, k)] + [f"t{n - begin}" for n in range(j, m)]
            text = paragraph.text[spans[i - first][0] : spans[k - 1 - first][1]]
            written, is_stored = _join(paragraph.written[j - begin : m - begin]), (use.source, use.target) in stored
            phrases.append(TranslatedPhrase(text, written, use.source, use.target, is_stored, " ".join(keys)))
        between = zip([0, *(end for _, end in spans)], spans, strict=False)
        sources = [(paragraph.text[before:start], paragraph.text[start:end]) for before, (start, end) in between]
        paragraphs.append(
            {
                "source": paragraph.text.strip(),
                "target": _join(paragraph.written),
                "links": own_links,
                "phrases": phrases,
                "source_words": _displayed("s", sources, partners),
                "target_words": _displayed("t", paragraph.written, partners),
            }
        )
    return paragraphs


def _join(written: Sequence[tuple[str, str]]) -> str:
    return "".join(part for pair in written for part in pair).strip()


def _displayed(
    side: str, words: Sequence[tuple[str, str]], partners: Mapping[str, Sequence[str]]
) -> list[_DisplayedWord]:
    return [
        _DisplayedWord(before, word, f"{side}{n}", " ".join(partners.get(f"{side}{n}", ())))
        for n, (before, word) in enumerate(words)
    ]
