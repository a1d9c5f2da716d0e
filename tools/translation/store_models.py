"""Language models of a store's target side, used if no other language model is named.

A model is built from the first pairs of the store. The number of these pairs grows with the store in steps of 10 %, so
that a growing store rarely needs a new model. Models are cached in the user's cache folder by a digest of their text.
"""

import logging
import os
import tempfile
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from hierogram.daemon.exceptions import DaemonError, ExportError, InputError
from hierogram.daemon.files import cache_folder
from hierogram.daemon.progress import Progress
from hierogram.storage.store import Store
from hierogram.tools.translation.language_models.arpa import NamedModel
from hierogram.tools.translation.language_models.estimation import BinaryWriter, estimate
from hierogram.tools.translation.language_models.files import open_language_model, write_binary
from hierogram.tools.translation.language_models.options import EstimationOptions

MAX_PAIRS = 200_000
"""Maximum number of pairs that a model is built from."""
STORE_MODEL_OPTIONS = EstimationOptions(order=5)
"""Options of the model. Mean BLEU with 5-grams is higher than with 3-grams or 4-grams; see docs/performance.md."""
_STEP = 1.1
_KEPT_FILES = 8
"""Maximum number of models in the cache folder."""

_log = logging.getLogger(__name__)


class StoreModel(NamedTuple):
    """Language model, the number of sentences that it was built from, and the digest of its text."""

    model: NamedModel
    sentences: int
    digest: str


def count_model_pairs(pairs: int) -> int:
    """Return the number of pairs to build a model from, given the number of pairs of a store."""
    pairs_used = following = min(pairs, 1)
    while following <= min(pairs, MAX_PAIRS):
        pairs_used, following = following, max(following + 1, int(following * _STEP))
    return pairs_used


def load_store_model(store: Store, bar: Progress, previous: StoreModel | None = None) -> StoreModel | None:
    """Load or build the model of a store's target side, or return `previous` if the target side is unchanged.

    Returns None if the store has no sentences or the model cannot be built.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="hierogram-") as folder:
            text = Path(folder, "target")
            sentences, digest = _write_text(store, text)
            if previous is not None and previous.digest == digest:
                return previous
            if not sentences:
                return None
            path = cache_folder() / "language-models" / f"{digest}.lm"
            model = None
            # Ignore a damaged file, which is then replaced.
            with suppress(InputError, OSError):
                if path.is_file():
                    model = open_language_model(str(path), bar)
                    os.utime(path)
            model = model or _build(text, path, bar)
    except (DaemonError, OSError) as error:
        _log.warning("cannot build a language model of the target side of the store: %s", error)
        return None
    _log.info("using a language model of %s target sentences of the store", f"{sentences:,}")
    return StoreModel(model, sentences, digest)


def _write_text(store: Store, path: Path) -> tuple[int, str]:
    digest = blake2b(f"4 {STORE_MODEL_OPTIONS}\n".encode(), digest_size=16)
    sentences = 0
    with store.snapshot() as snapshot, path.open("wb") as file:
        for line in snapshot.target_sides(count_model_pairs(sum(snapshot.state().pairs().values()))):
            # Skip sentences that contain `<s>` or `</s>`, which estimation rejects.
            if "<s>" not in line and "</s>" not in line:
                data = line.encode() + b"\n"
                digest.update(data)
                file.write(data)
                sentences += 1
    return sentences, digest.hexdigest()


def _build(text: Path, path: Path, bar: Progress) -> NamedModel:
    made: list[NamedModel] = []
    writer = partial(BinaryWriter, made.append)
    estimate([str(text)], STORE_MODEL_OPTIONS, [writer], text.parent, bar)
    with suppress(ExportError, InputError, OSError):
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        write_binary(path, made[0])
        files = sorted(path.parent.glob("*.lm"), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in files[_KEPT_FILES:]:
            file.unlink(missing_ok=True)
        # Open the file instead of returning the model in memory, because the file is memory-mapped.
        return open_language_model(str(path), bar)
    return made[0]
