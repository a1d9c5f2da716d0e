"""The language model of a store's target side: built once for each text, and kept in the cache folder."""

import gzip
import shutil
from pathlib import Path

import pytest
from tests.daemon.conftest import Run
from tests.tools.translation.small import grammar_file, lm_file

import hierogram as hg
from hierogram.daemon.exceptions import ExportError, InputError
from hierogram.daemon.learning.learner import withdraw_all
from hierogram.daemon.progress import progress
from hierogram.storage.store import Store
from hierogram.tools.translation import resources
from hierogram.tools.translation.options import TranslateOptions
from hierogram.tools.translation.resources import (
    MAX_PAIRS,
    GrammarFollower,
    StoreModel,
    count_model_pairs,
    load_resources,
    load_store_model,
)

NEW = [("zut la porte", "darn the door"), ("zut la maison", "darn the house"), ("zut", "darn")]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary cache folder for models. Compiled samplers keep their own."""
    monkeypatch.setattr(resources, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache" / "language-models"


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts from which models are built."""
    texts: list[str] = []
    build_model = resources.build_model

    def counted(paths, *arguments, **options):
        texts.append(Path(paths[0]).read_text())
        return build_model(paths, *arguments, **options)

    monkeypatch.setattr(resources, "build_model", counted)
    return texts


def load_model(store: Store, known: StoreModel | None = None) -> StoreModel:
    with progress("build", "n-grams") as shown:
        found = load_store_model(store, shown, known)
    assert found is not None
    return found


def test_a_model_covers_at_least_ninety_percent_of_the_pairs() -> None:
    assert [count_model_pairs(pairs) for pairs in (0, 1, 2, 10, 11)] == [0, 1, 2, 10, 11]
    assert len({count_model_pairs(pairs) for pairs in range(1_000, 2_000)}) < 10
    for pairs in range(1, 20_000, 97):
        assert pairs / 1.11 < count_model_pairs(pairs) <= pairs
    assert count_model_pairs(10**9) == count_model_pairs(MAX_PAIRS) <= MAX_PAIRS


def test_a_model_is_built_once_from_the_target_sides(learned: Store, built: list[str], cache: Path) -> None:
    first = load_model(learned)
    assert built == ["".join(row.target + "\n" for row in learned.pairs())]
    assert (first.sentences, [path.stem for path in cache.iterdir()]) == (9, [first.digest])
    second = load_model(learned)
    assert second.digest == first.digest
    assert load_model(learned, second) is second
    assert len(built) == 1


def test_a_model_is_rebuilt_when_the_text_changes(learned: Store, built: list[str], cache: Path) -> None:
    first = load_model(learned)
    with hg.open(learned.engine.url.render_as_string(hide_password=False)) as store:
        store.add(NEW)
    second = load_model(learned, first)
    assert (second.sentences, len(built)) == (12, 2)
    assert "darn the door" in built[1]
    withdraw_all(learned, [row.id for row in learned.pairs() if row.source.startswith("zut")], lambda _: None)
    third = load_model(learned, second)
    assert (third.digest, len(built)) == (first.digest, 2)


@pytest.mark.database("sqlite")
def test_a_damaged_file_is_rebuilt_and_old_files_are_deleted(learned: Store, built: list[str], cache: Path) -> None:
    [path] = (load_model(learned), cache)[1].iterdir()
    path.write_bytes(path.read_bytes()[:-100])
    load_model(learned)
    assert len(built) == 2
    for number in range(10):
        (cache / f"{number}.lm").write_bytes(b"")
        (cache / f"{number}.lm").touch()
    path.unlink()
    load_model(learned)
    assert len(list(cache.iterdir())) == 8
    assert path.is_file()


@pytest.mark.database("sqlite")
def test_without_a_cache_folder_the_model_is_in_memory(learned: Store, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no folder")
    assert load_model(learned).model.model.order == 5


@pytest.mark.database("sqlite")
def test_a_store_translates_without_a_model_if_none_can_be_built(
    learned: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_arguments, **_options):
        raise ExportError("cannot create temporary files")

    monkeypatch.setattr(resources, "build_model", fail)
    follower = GrammarFollower(learned, load_resources(TranslateOptions()))
    assert follower.newest()[0].translate("la maison").text
    assert follower.resources.model is None
    assert "of the store: cannot create temporary files" in caplog.text


@pytest.mark.database("sqlite")
def test_sentences_that_contain_sentence_marks_are_omitted(tmp_path: Path, built: list[str]) -> None:
    with hg.open(tmp_path / "marks.db", create=True) as store:
        store.add([("a", "b"), ("a c", "b </s>"), ("c", "<s>")])
        assert load_model(store.store).sentences == 1
    assert built == ["b\n"]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Folder of running text in two files, one of them compressed and in a subfolder, and of a hidden file."""
    folder = tmp_path / "texts"
    (folder / "news").mkdir(parents=True)
    (folder / "b.txt").write_text("The castle.\nA <s> mark\nthe castle .\n\nThe castle.\n")
    (folder / "news" / "a.gz").write_bytes(gzip.compress(b"The house, the moat!\n"))
    (folder / ".hidden").write_bytes(b"\xff")
    (folder / ".git").mkdir()
    (folder / ".git" / "index").write_bytes(b"\xff")
    return folder


@pytest.mark.database("sqlite")
def test_a_model_includes_the_sentences_of_a_folder_once(learned: Store, built: list[str], texts: Path) -> None:
    load_resources(TranslateOptions(lm=str(texts), tokenize="fr,en")).with_store_model(learned)
    own = "".join(row.target + "\n" for row in learned.pairs())
    assert built == [own + "The castle .\nthe castle .\nThe house , the moat !\n"]


@pytest.mark.database("sqlite")
def test_a_changed_folder_changes_the_model(learned: Store, built: list[str], texts: Path) -> None:
    resources = load_resources(TranslateOptions(lm=str(texts))).with_store_model(learned)
    assert resources.with_store_model(learned).store_model is resources.store_model
    (texts / "c").write_text("another castle\n")
    changed = resources.with_store_model(learned)
    assert len(built) == 2
    assert changed.model_name() == f"9 target sentences of the store and the text in {texts}"
    (texts / "c").unlink()
    assert changed.with_store_model(learned).store_model.digest == resources.store_model.digest
    assert len(built) == 2


@pytest.mark.database("sqlite")
def test_an_invalid_file_of_a_folder_is_an_error_but_keeps_a_loaded_model(
    learned: Store, texts: Path, caplog: pytest.LogCaptureFixture
) -> None:
    resources = load_resources(TranslateOptions(lm=str(texts))).with_store_model(learned)
    (texts / "c").write_bytes(b"well\n\xffill\n")
    with pytest.raises(InputError, match=r"c, line 2: not UTF-8 .*: convert the file first"):
        load_resources(TranslateOptions(lm=str(texts))).with_store_model(learned)
    assert resources.with_store_model(learned).store_model is resources.store_model
    assert "c, line 2: not UTF-8" in caplog.text


@pytest.mark.database("sqlite")
def test_an_empty_folder_is_an_error(learned: Store, tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    with pytest.raises(InputError, match="texts: no files found"):
        load_resources(TranslateOptions(lm=str(tmp_path / "texts"))).with_store_model(learned)


@pytest.mark.database("sqlite")
def test_a_removed_folder_keeps_the_model(learned: Store, texts: Path, caplog: pytest.LogCaptureFixture) -> None:
    resources = load_resources(TranslateOptions(lm=str(texts))).with_store_model(learned)
    shutil.rmtree(texts)
    assert resources.with_store_model(learned).store_model is resources.store_model
    assert "no files found" in caplog.text


@pytest.mark.database("sqlite")
def test_an_invalid_folder_is_reported_and_read_again(
    learned: Store, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (texts / "c").write_bytes(b"\xff\n")
    follower = GrammarFollower(learned, load_resources(TranslateOptions(lm=str(texts))))
    with pytest.raises(InputError, match="not UTF-8"):
        follower.newest()
    assert follower._pause_until > 0
    assert follower._store_grammar is None
    (texts / "c").unlink()
    assert follower.newest()[0].translate("la maison").text


@pytest.mark.database("sqlite")
def test_a_folder_requires_a_store(hierogram: Run, tmp_path: Path, learned_url: str, texts: Path) -> None:
    (tmp_path / "text").write_text("la maison\n")
    ran = hierogram("translate", str(grammar_file(tmp_path)), "text", "--lm", str(texts))
    assert ran.code == 2
    assert "a folder of text requires a store instead of a grammar file" in ran.err
    ran = hierogram("--store", learned_url, "translate", "text", "--lm", str(texts))
    assert f"language model: 9 target sentences of the store and the text in {texts}\n" in ran.err


@pytest.mark.database("sqlite")
def test_every_interface_names_its_language_model(
    learned_url: str, hierogram: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "text").write_text("la maison\n")
    message = "language model: 9 target sentences of the store (use --lm for another)"
    assert message in hierogram("--store", learned_url, "translate", "text").err
    assert "language model:" not in hierogram("--store", learned_url, "translate", "text", "--lm", "none").err
    lm = str(lm_file(tmp_path))
    assert "language model:" not in hierogram("--store", learned_url, "translate", "text", "--lm", lm).err
    ran = hierogram("translate", str(grammar_file(tmp_path)), "text")
    assert "no language model: for better translations, build a model" in ran.err
    with hg.open(learned_url) as store, caplog.at_level("INFO"):
        assert hg.Decoder(store).resources.store_model is not None
        assert hg.Decoder(store, lm="none").resources.model is None
        assert "using a language model of 9 target sentences" in caplog.text
        assert hg.Decoder(store).translate("la maison").candidates[0].features["lm"] < 0
