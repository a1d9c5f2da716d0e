"""The binary format: a mapped file contains the written arrays, and other files are refused."""

from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.reference.language_models.backoff import random_model
from tests.samplers.language_models.models import walk
from tests.tools.translation.language_models.arpa_files import KENLM, Quiet, format_arpa, read_text

from hierogram.daemon.exceptions import ExportError, InputError
from hierogram.tools.translation.language_models import (
    open_language_model,
    read_arrays,
    write_arrays,
    write_binary,
)


def test_a_model_survives_a_round_trip_through_the_binary_format(tmp_path: Path) -> None:
    random = Random(9)
    names = ["<unk>", "<s>", "</s>", "été", "家"]
    named = read_text(tmp_path, format_arpa(random_model(random, 4, len(names)), names, random))
    path = tmp_path / "model.lm"
    write_binary(path, named)
    again = open_language_model(str(path), Quiet())
    assert again.vocabulary.numbers(names).tolist() == named.vocabulary.numbers(names).tolist()
    words = np.array([random.randrange(5) for _ in range(500)], np.int32)
    found = []
    for model in (named.model, again.model):
        log10, states = walk(model, words, model.begin)
        found.append((log10.tolist(), states.tolist()))
    assert found[0] == found[1]


def test_an_arpa_file_is_recognized_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "model.lm"
    path.write_text(KENLM)
    assert open_language_model(str(path), Quiet()).model.order == 3


def test_truncation_and_changed_bytes_are_detected(tmp_path: Path) -> None:
    path = tmp_path / "model.lm"
    write_binary(path, read_text(tmp_path, KENLM))
    whole = path.read_bytes()
    start = whole.index(b"\n") + 1
    random = Random(4)
    for _ in range(200):
        at = random.randrange(start, len(whole))
        path.write_bytes(whole[:at])
        with pytest.raises(InputError, match="damaged or incomplete"):
            open_language_model(str(path), Quiet())
    places = [*range(start, start + 40), *(start + whole[start:].index(b"la") + k for k in range(4))]
    for at in places:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(InputError, match="damaged or incomplete"):
            open_language_model(str(path), Quiet())


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.lm"
    write_binary(path, read_text(tmp_path, KENLM))
    path.write_bytes(path.read_bytes().replace(b"model 2\n", b"model 7\n", 1))
    with pytest.raises(InputError, match="this version of hierogram"):
        open_language_model(str(path), Quiet())


def test_errors_when_opening_or_writing_are_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be opened"):
        open_language_model(str(tmp_path / "none"), Quiet())
    with pytest.raises(ExportError, match="cannot be written"):
        write_binary(tmp_path / "none" / "model.lm", read_text(tmp_path, KENLM))


def test_arrays_of_all_shapes_are_preserved(tmp_path: Path) -> None:
    path = tmp_path / "arrays"
    record = np.dtype([("a", np.int8), ("b", np.float64)], align=True)
    arrays = {
        "none": np.zeros((0, 3), np.int32),
        "bytes": np.arange(7, dtype=np.uint8),
        "table": np.arange(12, dtype=np.float32).reshape(3, 4),
        "records": np.array([(1, 0.5), (-1, 2.5)], record),
    }
    write_arrays(path, "test", 3, {"x": [1, "é"]}, arrays)
    values, found = read_arrays(str(path), "test", 3)
    assert values == {"x": [1, "é"]}
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].tolist() == array.tolist()
        found[name][:1] = found[name][-1:]
    assert read_arrays(str(path), "test", 3)[1]["bytes"].tolist() == list(range(7))
