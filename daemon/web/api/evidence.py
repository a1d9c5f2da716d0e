"""GET /v1/evidence: what the store knows of a sentence, as JSON or as text for a prompt."""

from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, PlainTextResponse, Response

from hierogram.daemon.evidence.options import EvidenceOptions
from hierogram.daemon.exceptions import InputError, WrongKindError
from hierogram.daemon.web.protocol.problems import ProblemError
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
_Span = tuple[int, int]


class PlaceAnswer(BaseModel):
    """Where a rule's source side matches: spans from the first word to before the second number."""

    words: list[_Span] = Field(description="Of the rule's words.")
    gaps: list[_Span] = Field(description="Of what its gaps stand for; gaps next to each other share one.")


class MatchedRuleAnswer(BaseModel):
    """A rule whose source side matches the sentence."""

    source: str
    target: str
    expected_uses: float = Field(description="Expected uses.")
    p_target_given_source: float
    places: list[PlaceAnswer] = Field(description="At most five.")


class LikePairAnswer(BaseModel):
    """A stored pair that covers words of the sentence."""

    id: int
    corpus: str
    source: str
    target: str
    covers: list[_Span] = Field(description="Spans of the sentence that the pair has, too.")
    fresh: list[_Span] = Field(description="Those of them that no pair before it has.")


class EntryAnswer(BaseModel):
    """An entry of a dictionary whose source side the sentence has."""

    id: int
    corpus: str
    source: str
    target: str


class EvidenceAnswer(BaseModel):
    """What the store knows of a sentence."""

    position: int = Field(description="Store position.")
    words: list[str] = Field(description="The words that positions count, from 0.")
    unknown: list[str] = Field(description="Words that no stored pair has on its source side.")
    rules: list[MatchedRuleAnswer]
    pairs: list[LikePairAnswer]
    entries: list[EntryAnswer] = Field(description="Entries of dictionaries, which are none of the pairs.")


def evidence_routes(reader: Reader) -> APIRouter:
    """The routes of this module."""
    router = APIRouter(prefix="/v1", tags=["grammar"])

    @router.get(
        "/evidence",
        response_model=EvidenceAnswer,
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
        from hierogram.daemon.evidence.gathering import as_plain, as_prompt, gather

        wanted = EvidenceOptions(pairs=pairs, rules=rules, renderings=renderings, tokenized=tokenized)
        try:
            with reader.look() as look:
                found = gather(look, source, wanted)
                languages = look.settings().languages
        except WrongKindError as error:
            raise ProblemError(HTTPStatus.CONFLICT, str(error)) from error
        except InputError as error:
            raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        if format == "prompt":
            return PlainTextResponse(as_prompt(found, tuple(languages or ())))
        return JSONResponse(as_plain(found))

    return router
