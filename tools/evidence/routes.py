"""Route of the evidence for a sentence."""

import re
from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import AfterValidator
from starlette.responses import JSONResponse, PlainTextResponse, Response

from hierogram.daemon.text.pipeline import make_pipeline
from hierogram.daemon.web.protocol.context import Service
from hierogram.storage.options import OptionField
from hierogram.tools.evidence.budget import fit_budget
from hierogram.tools.evidence.options import MAX_CHARACTERS, EvidenceOptions, candidate_limits
from hierogram.tools.evidence.retrieval import Evidence, as_prompt
from hierogram.tools.evidence.retrieval import evidence as retrieve_evidence

_FIELDS = OptionField.of(EvidenceOptions)
_MAX_LENGTH = 10_000
_INVISIBLE = r"\x00-\x20\x7f-\xa0\xad\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff"
_VISIBLE = rf"^[^\x00]*[^{_INVISIBLE}][^\x00]*$"
"""Pattern of a text with at least one visible character and without NUL."""


def _has_word(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain NUL")
    if not re.search(f"[^{_INVISIBLE}]", text):
        raise ValueError("must contain a word, such as source=la")
    return text


# The pattern is only in the OpenAPI document, so that errors have readable messages.
_Sentence = Annotated[
    str,
    Query(
        max_length=_MAX_LENGTH, json_schema_extra={"pattern": _VISIBLE}, description="Sentence in the source language."
    ),
    AfterValidator(_has_word),
]


def evidence_routes(service: Service) -> APIRouter:
    """Return the route of `GET /v1/evidence`."""
    router = APIRouter(prefix="/v1", tags=["grammar"])

    @router.get(
        "/evidence",
        response_model=Evidence,
        responses={
            200: {"content": {"text/plain": {}}},
            409: {"description": "The store is monolingual."},
            422: {"description": "The sentence has no words or too many words, or a value is invalid."},
        },
    )
    def evidence(
        source: _Sentence,
        pairs: Annotated[int, Query(**_FIELDS["pairs"].constraints())] = EvidenceOptions.pairs,
        rules: Annotated[int, Query(**_FIELDS["rules"].constraints())] = EvidenceOptions.rules,
        tokenized: Annotated[bool, Query(**_FIELDS["tokenized"].constraints())] = EvidenceOptions.tokenized,
        format: Annotated[
            Literal["json", "prompt"], Query(description="Response format: JSON, or text for a prompt.")
        ] = "json",
        characters: Annotated[
            int | None,
            Query(
                ge=1,
                le=MAX_CHARACTERS,
                description="Return up to this number of characters of evidence as text for a prompt, chosen to cover "
                "the sentence, without the sentence itself. Ignores other limits and `format`.",
            ),
        ] = None,
    ) -> Response:
        """Return rules that match a sentence, and pairs that together cover much of it. Nothing is stored."""
        store, options = service.grammar_store, EvidenceOptions(pairs=pairs, rules=rules, tokenized=tokenized)
        if characters is not None:
            evidence = retrieve_evidence(store, source, options=candidate_limits(tokenized=tokenized))
            return PlainTextResponse(fit_budget(evidence, characters, make_pipeline(store.settings())))
        evidence = retrieve_evidence(store, source, options=options)
        if format == "prompt":
            return PlainTextResponse(as_prompt(evidence, source, make_pipeline(store.settings())))
        return JSONResponse(asdict(evidence))

    return router
