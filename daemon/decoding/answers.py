"""Translations as plain values, for JSON."""

from dataclasses import asdict
from typing import Any

from hierogram.daemon.decoding.translating import Translation


def as_plain(translation: Translation) -> dict[str, Any]:
    """A sentence with its translations, best first, and of each its score, features, links and rules."""
    return {
        "source": " ".join(translation.source),
        "translation": translation.text,
        "parts": translation.parts,
        "candidates": [
            {
                "translation": candidate.text,
                "score": candidate.score,
                "features": candidate.features,
                "alignment": translation.alignment(number),
                "derivation": [asdict(use) for use in translation.derivation(number)],
            }
            for number, candidate in enumerate(translation.candidates)
        ],
    }
