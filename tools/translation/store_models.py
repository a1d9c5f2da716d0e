"""Language models of a store's target side, for translating if no other language model is named.

A model is built from the first pairs of the store, and kept in the user's cache folder by a digest of its text. The
number of these pairs follows from the number of all pairs in steps of a tenth, so the same store has the same model in
every process, and a store that grows by a pair keeps its model.
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
_STEP = 1.1
_KEPT_FILES = 8
"""Maximum number of models in the cache folder."""
_MARKS = ("<s>", "</s>")

_log = logging.getLogger(__name__)


class StoreModel(NamedTuple):
    """A language model, the number of sentences that it was built from, and the digest of its text."""

    model: NamedModel
    sentences: int
    digest: str


def modelled_pairs(pairs: int) -> int:
    """Return the number of pairs that the model of a store with a number of pairs is built from."""
    found = following = min(pairs, 1)
    while following <= min(pairs, MAX_PAIRS):
        found, following = following, max(following + 1, int(following * _STEP))
    return found


def model_of_store(store: Store, classes: bool, shown: Progress, known: StoreModel | None = None) -> StoreModel | None:
    """Return the language model of a store's target side, from the cache folder if it is there.

    Parameters
    ----------
    store
        A store of pairs.
    classes
        Whether to build a class model too.
    shown
        Progress of building the model.
    known
        The model of an earlier state of the store, which is returned if its text has not changed.

    Returns
    -------
    StoreModel or None
        None if the store has no pairs, or the model cannot be built; the latter is logged.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="hierogram-") as folder:
            text = Path(folder, "target")
            sentences, digest = _write_text(store, text, classes)
            if known is not None and known.digest == digest:
                return known
            if not sentences:
                return None
            path = cache_folder() / "language-models" / f"{digest}.lm"
            model = _kept(path, shown) or _built(text, path, classes, shown)
    except (DaemonError, OSError) as error:
        _log.warning("no language model of the store's target side could be built: %s", error)
        return None
    _log.info("translating with a language model of %s target sentences of the store", f"{sentences:,}")
    return StoreModel(model, sentences, digest)


def _write_text(store: Store, path: Path, classes: bool) -> tuple[int, str]:
    """Write the sentences of a model, and return their number and digest."""
    digest = blake2b(f"3 {EstimationOptions()} {classes}\n".encode(), digest_size=16)
    sentences = 0
    with store.snapshot() as snapshot, path.open("wb") as file:
        for line in snapshot.target_sides(modelled_pairs(sum(snapshot.status().pairs.values()))):
            # A language model has these words already.
            if not any(mark in line for mark in _MARKS):
                data = line.encode() + b"\n"
                digest.update(data)
                file.write(data)
                sentences += 1
    return sentences, digest.hexdigest()


def _kept(path: Path, shown: Progress) -> NamedModel | None:
    """Return the model of a file in the cache folder, if it is there and whole."""
    if not path.is_file():
        return None
    try:
        model = open_language_model(str(path), shown)
        os.utime(path)
    except (InputError, OSError):
        return None
    return model


def _built(text: Path, path: Path, classes: bool, shown: Progress) -> NamedModel:
    """Build a model. It is kept in the cache folder if that can be written."""
    made: list[NamedModel] = []
    writer = partial(BinaryWriter, made.append)
    estimate([str(text)], EstimationOptions(), [writer], text.parent, shown, classes=classes)
    with suppress(ExportError, InputError, OSError):
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        write_binary(path, made[0])
        files = sorted(path.parent.glob("*.lm"), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in files[_KEPT_FILES:]:
            file.unlink(missing_ok=True)
        # A file is mapped into memory.
        return open_language_model(str(path), shown)
    return made[0]
