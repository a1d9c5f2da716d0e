"""GET /v1/evidence: what the store knows of a sentence, as JSON or as text for a prompt."""

from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.responses import JSONResponse, PlainTextResponse, Response

from hierogram.daemon.evidence.options import EvidenceOptions
from hierogram.storage.browsing.reader import Reader
from hierogram.storage.options import constraints

_LONGEST = 10_000
_UNSEEN = r"\x00-\x20\x7f-\xa0\xad\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff"
_SEEN = rf"^[^\x00]*[^{_UNSEEN}][^\x00]*$"
"""What has a word: white space and control characters alone have none."""

_Pairs = Annotated[int, Query(**constraints(EvidenceOptions, "pairs"))]
_Rules = Annotated[int, Query(**constraints(EvidenceOptions, "rules"))]
_Renderings = Annotated[int, Query(**constraints(EvidenceOptions, "renderings"))]
_Tokenized = Annotated[bool, Query(**constraints(EvidenceOptions, "tokenized"))]


def evidence_routes(reader: Reader) -> APIRouter:
    """Return the route of evidence."""
    # The pages alone need no numpy.
    from hierogram.daemon.evidence.gathering import Evidence, as_prompt, gather

    router = APIRouter(prefix="/v1", tags=["grammar"])

    @router.get(
        "/evidence",
        response_model=Evidence,
        responses={
            200: {"content": {"text/plain": {}}},
            409: {"description": "The store has sentences of one language."},
            422: {"description": "The sentence has no word, or too many, or a value is wrong."},
        },
    )
    def evidence(
        source: Annotated[str, Query(max_length=_LONGEST, pattern=_SEEN, description="The sentence.")],
        pairs: _Pairs = EvidenceOptions.pairs,
        rules: _Rules = EvidenceOptions.rules,
        renderings: _Renderings = EvidenceOptions.renderings,
        tokenized: _Tokenized = EvidenceOptions.tokenized,
        format: Annotated[
            Literal["json", "prompt"], Query(description="JSON, or text that is ready for a prompt.")
        ] = "json",
    ) -> Response:
        """Rules that match a sentence, and stored pairs that cover most of it; nothing is stored."""
        wanted = EvidenceOptions(pairs=pairs, rules=rules, renderings=renderings, tokenized=tokenized)
        with reader.look() as look:
            found = gather(look, source, wanted)
            languages = look.settings().languages
        if format == "prompt":
            return PlainTextResponse(as_prompt(found, source, tuple(languages or ())))
        return JSONResponse(asdict(found))

    return router
