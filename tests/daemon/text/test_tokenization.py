"""The first pairs without links determine whether a store tokenizes, through every interface."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import update
from tests.daemon.conftest import Run
from tests.daemon.serving.spool_loop import ScanLimit, nothing, run

import hierogram as hg
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.text.ingest import store_input
from hierogram.daemon.text.lines import DEFAULT_LIMITS
from hierogram.daemon.text.reading import STORE_DEFAULTS, read_in_sandbox
from hierogram.daemon.web.api.ingest import IngestRequest
from hierogram.storage.exceptions import WriteConflictError
from hierogram.storage.pairs import ingest as stored_ingest
from hierogram.storage.records.settings import Settings
from hierogram.storage.schema.tables import settings as settings_table
from hierogram.storage.store import Store, open_store
from hierogram.storage.worker_process import WorkerProcess

RUNNING = [("L'eau est là.", "The water is there."), ("Un chat", "A cat"), ("Qui, toi ?", "Who, you?")]
DIVIDED = [("L' eau est là .", "The water is there ."), ("Un chat", "A cat"), ("Qui , toi ?", "Who , you ?")]
NO_SIGNS = [("Un chat", "A cat"), ("L'eau", "It's water")]
REASON = "tokenized by the rules of fr and en, because it is running text: 4 of 6 lines have punctuation attached"
KEPT = "tokens are kept, because the text is tokenized: 4 of 6 lines have spaces before punctuation"


def texts(store: Store) -> list[tuple[str, str]]:
    return [(row.source, row.target) for row in store.pairs()]


def create(url: str, **settings: object) -> Store:
    return open_store(url, create=True, settings=Settings(**({"languages": ("fr", "en")} | settings)))


def lines(pairs: list[tuple[str, str]]) -> str:
    return "".join(f"{source} ||| {target}\n" for source, target in pairs)


def add_in_python(store: Store, pairs: list[tuple[str, str]], _folder: Path) -> str:
    return str(hg.GrammarStore(store).add(pairs).notes[0])


def add_from_files(store: Store, pairs: list[tuple[str, str]], folder: Path) -> str:
    for side, language in enumerate(("fr", "en")):
        (folder / f"text.{language}").write_text("".join(pair[side] + "\n" for pair in pairs))
    return str(hg.GrammarStore(store).add(folder / "text.fr", folder / "text.en").notes[0])


def add_in_a_sandbox(store: Store, pairs: list[tuple[str, str]], folder: Path) -> str:
    (folder / "text.pipes").write_text(lines(pairs))
    with closing(WorkerProcess()) as child:
        files = [str(folder / "text.pipes")]
        messages = child.run(lambda: None, read_in_sandbox, files, store.settings(), STORE_DEFAULTS)
        report = store_input(store, "default", DEFAULT_LIMITS, messages, None)
    return str(report.notes[0])


def add_by_spool(store: Store, pairs: list[tuple[str, str]], folder: Path) -> str:
    (folder / "spool").mkdir()
    (folder / "spool" / "text.pipes").write_text(lines(pairs))
    log, _ = run(store, ScanLimit(nothing), folder=folder / "spool")
    [note] = [f"{line['note']}: {line['reason']}" for line in log if line["event"] == "note on file"]
    return note


def add_by_http(store: Store, pairs: list[tuple[str, str]], _folder: Path) -> str:
    request = IngestRequest(hg.GrammarStore(store), "default", "key", DEFAULT_LIMITS, None)
    request.add([json.dumps({"source": source, "target": target}).encode() for source, target in pairs])
    request.finish()
    return str(request.answer.notes[0])


def synchronize(store: Store, pairs: list[tuple[str, str]], folder: Path) -> str:
    units = (
        f'<tu><tuv xml:lang="fr"><seg>{source}</seg></tuv><tuv xml:lang="en"><seg>{target}</seg></tuv></tu>'
        for source, target in pairs
    )
    (folder / "m.tmx").write_text(f'<tmx version="1.4"><body>{"".join(units)}</body></tmx>')
    return str(hg.GrammarStore(store).synchronize(folder / "m.tmx", "default").added.notes[0])


@pytest.mark.parametrize(
    "add", [add_in_python, add_from_files, add_in_a_sandbox, add_by_spool, add_by_http, synchronize]
)
@pytest.mark.parametrize("is_running", [True, False])
def test_the_first_pairs_decide_tokenization_through_every_interface(
    add: Callable[[Store, list[tuple[str, str]], Path], str], is_running: bool, store_url: str, tmp_path: Path
) -> None:
    with create(store_url) as store:
        assert store.settings().tokenize is None
        note = add(store, RUNNING if is_running else DIVIDED, tmp_path)
        assert note.startswith("tokenization: ")
        assert (REASON if is_running else KEPT) in note
        assert store.settings().tokenize is is_running
        assert sorted(texts(store)) == sorted(DIVIDED)
        # Later pairs do not change the decision.
        hg.GrammarStore(store).add([("Oui.", "Yes.")], corpus="b")
        assert store.settings().tokenize is is_running
        assert texts(store)[-1] == (("Oui .", "Yes .") if is_running else ("Oui.", "Yes."))


def test_the_command_line_tokenizes_running_text_without_an_option(hierogram: Run, tmp_path: Path) -> None:
    assert "tokenize         (determined by the first text)" in hierogram("init", "--languages", "fr,en").out
    (tmp_path / "a").write_text(lines(RUNNING))
    assert REASON in hierogram("ingest", "a").err
    assert "tokenize         True" in hierogram("init").out
    (tmp_path / "b").write_text(lines(DIVIDED))
    assert "4 of 6 lines have spaces before punctuation; it was tokenized again" in hierogram("ingest", "b").err
    assert KEPT in hierogram("--store", "b.db", "ingest", "b").err
    again = hierogram("--store", "b.db", "ingest", "a").err
    assert "4 of 6 lines have punctuation attached to words; the store keeps tokens" in again


def test_text_without_signs_is_kept_and_later_text_decides_tokenization(store_url: str) -> None:
    with create(store_url) as store:
        opened = hg.GrammarStore(store)
        assert opened.add(NO_SIGNS).notes == []
        assert opened.add([(*pair, "0-0") for pair in RUNNING], corpus="linked").notes == []
        assert store.settings().tokenize is None
        assert texts(store) == [*NO_SIGNS, *RUNNING]
        opened.add(RUNNING, corpus="b")
        assert texts(store)[-3:] == DIVIDED
        # Pairs with links are not tokenized, because the links refer to the words of the input.
        opened.add([(*RUNNING[0], "0-0")], corpus="c")
        assert texts(store)[-1] == RUNNING[0]


def test_rejected_lines_do_not_decide_tokenization(store_url: str) -> None:
    with create(store_url) as store:
        assert hg.GrammarStore(store).add([("Oui.", "")]).totals.rejected == 1
        assert store.settings().tokenize is None


@pytest.mark.parametrize("tokenize", [True, False])
def test_tokenization_chosen_at_creation_takes_precedence(tokenize: bool, store_url: str) -> None:
    pairs = DIVIDED if tokenize else RUNNING
    with create(store_url, tokenize=tokenize) as store:
        [note] = hg.GrammarStore(store).add(pairs).notes
        assert note.code == "tokenization"
        assert store.settings().tokenize is tokenize
        assert texts(store) == pairs
    hg.open(store_url, tokenize=tokenize).close()
    with pytest.raises(hg.StoreError, match="tokenize is"):
        hg.open(store_url, tokenize=not tokenize)


def test_text_in_unknown_languages_is_tokenized_by_general_rules(store_url: str) -> None:
    with hg.open(store_url, create=True) as store:
        [note] = store.add([("Ndox mi, fa la.", "The water's there.")]).notes
        assert "tokenized by general rules, because it is running text" in note.text
        assert "`hierogram init --languages` selects the rules of languages" in note.text
        assert texts(store.store) == [("Ndox mi , fa la .", "The water's there .")]
        assert store.settings().languages == ()


def test_running_text_in_given_languages_sets_the_languages_of_the_store(store_url: str) -> None:
    with hg.open(store_url, create=True) as store:
        store.add(NO_SIGNS, languages=("de", "en"))
        store.add(DIVIDED[1:2], corpus="b", languages=("en", "fr"))
        assert store.settings().languages == ()
        store.add(RUNNING, corpus="c", languages=("fr", "en"))
        assert texts(store.store)[-3:] == DIVIDED
        assert store.settings().languages == ("fr", "en")
        with pytest.raises(UsageError, match="the languages of the store are fr,en"):
            store.add(RUNNING, languages=("de", "en"))


def test_a_dictionary_is_running_text_but_does_not_decide_tokenization(store_url: str, tmp_path: Path) -> None:
    (tmp_path / "terms.csv").write_text("source,target\nl'eau.,water\n")
    with create(store_url) as store:
        hg.GrammarStore(store).add(tmp_path / "terms.csv", dictionary_options=hg.DictionaryOptions())
        assert texts(store) == [("l' eau .", "water")]
        assert store.settings().tokenize is None


@pytest.mark.parametrize("tokenize", [None, False, True])
def test_a_correction_is_tokenized_as_running_text(tokenize: bool | None, store_url: str) -> None:
    with create(store_url, tokenize=tokenize) as store:
        corrections = hg.Corrections(hg.GrammarStore(store))
        corrections.put("L'eau.", "Water.", "page")
        assert texts(store) == [("L' eau .", "Water .")]
        assert corrections.find("L'eau.") == "Water."
        assert store.settings().tokenize is (tokenize is not False)


def test_tokenization_and_the_first_pairs_are_stored_in_one_transaction(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with create(store_url) as store:
        opened = hg.GrammarStore(store)

        def fail(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(stored_ingest, "_insert_pairs", fail)
            with pytest.raises(KeyboardInterrupt):
                opened.add(RUNNING)
        assert (store.settings().tokenize, store.count_pairs()) == (None, 0)
        opened.add(DIVIDED)
        assert (store.settings().tokenize, texts(store)) == (False, DIVIDED)


@pytest.mark.parametrize(
    ("pairs", "decision", "is_refused"),
    [
        (RUNNING, "false", True),
        (DIVIDED, "true", True),
        (NO_SIGNS, "true", True),
        (NO_SIGNS, "false", False),
        (DIVIDED, "false", False),
    ],
)
def test_an_input_is_refused_if_another_one_has_decided_tokenization_otherwise(
    pairs: list[tuple[str, str]], decision: str, is_refused: bool, store_url: str
) -> None:
    with create(store_url) as store:
        opened = hg.GrammarStore(store)

        def slow() -> Iterator[tuple[str, str]]:
            with store.engine.begin() as connection:
                row = update(settings_table).where(settings_table.c.name == "tokenize")
                connection.execute(row.values(value=decision))
            yield from pairs

        if is_refused:
            with pytest.raises(WriteConflictError, match="another input has set "):
                opened.add(slow())
            assert store.count_pairs() == 0
        else:
            opened.add(slow())
            assert texts(store) == pairs
        assert store.settings().tokenize is (decision == "true")
        opened.add(pairs)
        assert store.count_pairs() == len(pairs)


def test_only_one_of_two_concurrent_inputs_decides_tokenization(store_url: str) -> None:
    with create(store_url) as store:
        start = threading.Barrier(2)
        refused: list[str] = []

        def write(pairs: list[tuple[str, str]], corpus: str) -> None:
            def slow() -> Iterator[tuple[str, str]]:
                start.wait()
                yield from pairs

            try:
                hg.GrammarStore(store).add(slow(), corpus=corpus)
            except WriteConflictError:
                refused.append(corpus)

        writers = [threading.Thread(target=write, args=each) for each in ((RUNNING, "a"), (DIVIDED, "b"))]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        [loser] = refused
        assert store.settings().tokenize is (loser == "b")
        assert texts(store) == DIVIDED
        # Ingested again, the other input follows the decision.
        hg.GrammarStore(store).add(DIVIDED if loser == "b" else RUNNING, corpus=loser)
        assert store.count_pairs() == 2 * len(DIVIDED)


def test_running_text_is_refused_if_the_package_of_its_language_is_missing(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jieba", None)
    with create(store_url, languages=("zh", "en")) as store:
        opened = hg.GrammarStore(store)
        with pytest.raises(UsageError, match="tokenizing zh requires jieba"):
            opened.add([("水很冷。", "The water is cold.")])
        assert (store.settings().tokenize, store.count_pairs()) == (None, 0)
        opened.add([("水 很 冷 。", "The water is cold .")])
        assert store.settings().tokenize is False
