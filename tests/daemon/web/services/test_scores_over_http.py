"""GET /v1/pairs/{pair_id}/score."""

import pytest
from starlette.testclient import TestClient

from hierogram.storage.store import Store
from hierogram.tools.scores.learned_counts import LearnedCounts
from hierogram.tools.scores.scoring import Scorer, save_scores

pytestmark = pytest.mark.database("sqlite")


def test_a_stored_score_is_returned(learned_client: TestClient, learned: Store) -> None:
    scorer = Scorer(LearnedCounts(learned, lambda *_: None))
    [row] = learned.pairs_by_id([2])
    [(score, derivation)] = made = scorer.score_stored([row])
    assert derivation is not None
    save_scores(learned, scorer, [row], made)
    answer = learned_client.get("/v1/pairs/2/score")
    assert answer.status_code == 200
    body = answer.json()
    assert body["pair"] == 2
    assert body["evidence"] == score.evidence
    assert body["exact"] is True
    assert body["doubt"] == score.doubt
    assert score.target_misfit is not None
    assert body["target_misfit"]["position"] == score.target_misfit.position
    assert [(link["source"], link["target"]) for link in body["links"]] == [
        (link.source, link.target) for link in score.links
    ]


def test_pairs_without_a_score_are_reported(learned_client: TestClient) -> None:
    waiting = learned_client.get("/v1/pairs/2/score")
    assert (waiting.status_code, "not been scored yet" in waiting.text) == (409, True)
    gone = learned_client.get("/v1/pairs/99/score")
    assert (gone.status_code, "pair 99 not found" in gone.text) == (404, True)
    assert learned_client.get("/v1/pairs/0/score").status_code == 422
