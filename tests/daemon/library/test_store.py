"""Python equivalents of the commands, and interruptions of learning."""

import math
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from tests.conftest import create_sql_role
from tests.daemon.conftest import LINES, make_store
from tests.daemon.learning.stores import contents, some_pairs

import hierogram as hg
from hierogram.daemon.exceptions import InputError, UsageError, WrongKindError
from hierogram.daemon.learning.lease import holding_lease
from hierogram.storage.exceptions import StoreError, StoreHeldError, StoreMissingError
from hierogram.storage.store import open_store

pytestmark = pytest.mark.database("sqlite")

ROOT = Path(__file__).parents[3]
PAIRS = [tuple(line.split(" ||| ")) for line in LINES]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small corpus as parallel files, in the current folder."""
    monkeypatch.chdir(tmp_path)
    for name, column in zip(("fr", "en", "align"), zip(*PAIRS, strict=True), strict=True):
        (tmp_path / f"news.{name}").write_text("".join(line + "\n" for line in column))
    return tmp_path


@pytest.fixture
def new(store_url: str) -> Iterator[hg.GrammarStore]:
    make_store(store_url, schedule="paper", sweeps_per_level=2, levels=3)
    with hg.open(store_url) as store:
        yield store


@pytest.fixture
def opened(learned_url: str) -> Iterator[hg.GrammarStore]:
    with hg.open(learned_url) as store:
        yield store


@pytest.mark.database("sqlite", "postgres")
def test_python_code_of_the_readme_runs_and_has_one_line_for_each_command(files: Path, store_url: str) -> None:
    readme = (ROOT / "README.md").read_text()
    [block] = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    [tour] = [block for block in re.findall(r"```sh\n(.*?)```", readme, re.DOTALL) if "ingest news.fr" in block][:1]
    # The lines import the library, create the store, and call a method for each command.
    assert len([line for line in block.splitlines() if line]) == 2 + len(tour.splitlines())
    names: dict[str, Any] = {}
    exec(block.replace("news.db", store_url), names)
    store = names["store"]
    assert store.rules().top(1)
    assert store.status().pairs["settled"] == len(LINES)
    assert (files / "grammar.cdec.gz").is_file()
    assert store.verify().problems == []
    store.close()


def test_settings_of_the_readme_work_in_python(files: Path, store_url: str) -> None:
    readme = (ROOT / "README.md").read_text()
    [shown] = [block for block in re.findall(r"```sh\n(.*?)```", readme, re.DOTALL) if " init " in block]
    job = """
store = hg.open(url, create=True, seed=7, discount=0.4, span_limit=10)
store.add("news.fr", "news.en", "news.align")
"""
    assert len(job.strip().splitlines()) == len(shown.splitlines())
    names: dict[str, Any] = {"hg": hg, "url": store_url}
    exec(job, names)
    with names["store"] as store:
        settings = store.settings()
        assert (settings.seed, settings.discount, settings.span_limit) == (7, 0.4, 10)
        assert store.status().pairs["waiting"] == len(LINES)


def test_pairs_are_accepted_from_files_sequences_and_data_frames(new: hg.GrammarStore, files: Path) -> None:
    first = new.add("news.fr", Path("news.en"), "news.align")
    assert first.totals.accepted == len(LINES)
    names = ("source", "target", "alignment")
    rows = [dict(zip(names, pair, strict=True)) for pair in PAIRS]
    links = [[tuple(map(int, link.split("-"))) for link in pair[2].split()] for pair in PAIRS]
    forms: list[Any] = [
        PAIRS,
        iter(PAIRS),
        [[source, target, own] for (source, target, _), own in zip(PAIRS, links, strict=True)],
        [{**row, "alignment": own} for row, own in zip(rows, links, strict=True)],
        pandas.DataFrame(rows),
        polars.DataFrame(rows),
        pyarrow.table(polars.DataFrame(rows)),
    ]
    for form in forms:
        again = new.add(form)
        assert (again.totals.accepted, again.totals.duplicates, again.totals.rejected) == (0, len(LINES), 0), form


@pytest.mark.parametrize(
    "links",
    [[(0, 0), (1.0, 1)], np.array([[0, 0], [1, 1]]), ((np.int32(k), np.float32(k)) for k in (0, 1)), {(0, 0), (1, 1)}],
)
def test_links_are_accepted_from_lists_arrays_generators_and_sets_of_whole_numbers(
    new: hg.GrammarStore, links: Any
) -> None:
    assert new.add([("a b", "x y", links)]).totals.accepted == 1
    assert new.pair(1).links == [(0, 0), (1, 1)]


@pytest.mark.parametrize(
    "link", [(0.9, 1), (math.nan, 0), (math.inf, 0), (True, 0), (np.True_, 0), ("0", 0), "00", (0,), 0, None]
)
def test_invalid_links_are_rejected_and_never_rounded(new: hg.GrammarStore, link: Any) -> None:
    one = {"source": "a b", "target": "x y"}
    pairs = [("a b", "x y", [(0, 0), link])] + [one | {name: [link]} for name in ("alignment", "fixed", "forbidden")]
    assert new.add([*pairs, *[("a", "b")] * 9]).reasons == {"malformed-link": 4}


WITHOUT_PYARROW = """
import sys
sys.modules["pyarrow"] = None
import pandas
import hierogram as hg
with hg.open(sys.argv[1]) as store:
    frame = pandas.DataFrame({"source": ["a", "b"], "target": ["x", "y"], "alignment": ["0-0", None], "id": [1, 2]})
    print(store.add(frame).totals.accepted)
    print(len(store.rules().to_pandas()))
"""


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_exchange_with_pandas_needs_no_pyarrow(new: hg.GrammarStore) -> None:
    url = new.store.engine.url.render_as_string(hide_password=False)
    script = [sys.executable, "-c", WITHOUT_PYARROW, url]
    assert subprocess.run(script, capture_output=True, text=True, check=True).stdout == "2\n0\n"
    assert [row.alignment for row in new.store.pairs(limit=9)] == ["0-0", ""]


def test_a_data_frame_without_a_side_is_refused(new: hg.GrammarStore) -> None:
    for frame in (pandas.DataFrame({"source": ["a"]}), polars.DataFrame({"source": ["a"]})):
        with pytest.raises(InputError, match="must have the column target, got source"):
            new.add(frame)


def test_invalid_pairs_are_rejected_and_the_others_stored(new: hg.GrammarStore) -> None:
    given: list[Any] = [("a", "b"), "ab", ("a",), {"source": "a"}, ("a", 3), ("a", "b", "0-7"), ("c", "d", [(0, 0)])]
    report = new.add(given)
    assert report.totals.accepted == 2
    assert [line.line for line in report.first_rejected] == [2, 4, 5, 6]
    assert report.reasons == {"wrong-type": 3, "missing-field": 1, "link-out-of-range": 1}


def test_a_dictionary_is_ingested_and_withdrawn(new: hg.GrammarStore, tmp_path: Path) -> None:
    (tmp_path / "terms.csv").write_text("source,target\nmaison,house\nchat,cat\n")
    assert new.add(tmp_path / "terms.csv", dictionary_options=hg.DictionaryOptions(weight=2)).totals.accepted == 4
    assert new.status().corpora == {"dictionary": 4}
    assert new.withdraw(corpus="dictionary").pairs == 4


def test_invalid_or_contradictory_arguments_are_errors(new: hg.GrammarStore) -> None:
    for call, message in (
        (lambda: new.add(PAIRS, "news.en"), "pairs in memory"),
        (lambda: new.add("trees", nbest=True), "store of trees"),
        (lambda: new.withdraw(), "select pairs"),
        (lambda: new.withdraw([1], corpus="x"), "select pairs"),
        (lambda: new.withdraw("99"), "ids must be integers, got '99'"),
        (lambda: new.withdraw(9.5), r"ids must be integers, got 9\.5"),
        (lambda: new.withdraw(True), "ids must be integers, got True"),
        (lambda: new.withdraw([1, False]), r"ids must be integers, got \[1, False\]"),
        (lambda: new.withdraw(b"\x01"), r"ids must be integers, got b'\\x01'"),
        (lambda: new.export("g", max_scoop=2), "unknown option max_scoop: expected format"),
        (lambda: new.export("g", per_source=0), "per_source: must be >= 1, got 0"),
        (lambda: hg.terms(new, min_words=9), "min_words"),
        (lambda: hg.align(["a"], ["b"], model="no"), "no"),
        (lambda: hg.align(["a"], ["b"], tokenize=("fr", "en"), tokenized=True), "mutually exclusive"),
    ):
        with pytest.raises(UsageError, match=message):
            call()
    with pytest.raises(InputError, match="no matching pair found"):
        new.withdraw(corpus="none")


def test_stores_keep_given_settings_and_refuse_others(store_url: str) -> None:
    with pytest.raises(StoreMissingError):
        hg.open(store_url)
    with hg.open(store_url, create=True, model="dirichlet", languages=("fr", "en")) as store:
        assert (store.settings().schedule, store.settings().annealing) == ("annealed", 280)
        has = store.settings()
    with hg.open(store_url, create=True, languages=("fr", "en")) as store:
        assert store.settings() == has
    with pytest.raises(StoreError, match=r"languages is \('fr', 'en'\), not \('de', 'en'\)"):
        hg.open(store_url, languages=("de", "en"))


def test_learning_interrupted_in_a_loop_and_continued_equals_learning_with_a_callback(
    store_url: str, tmp_path: Path
) -> None:
    pairs = [(pair.source, pair.target, pair.alignment) for pair in some_pairs(40)]
    whole = f"sqlite:///{tmp_path / 'whole.db'}"
    for url in (whole, store_url):
        with hg.open(url, create=True) as store:
            store.add(pairs)
    with hg.open(whole) as store:
        reported_sweeps: list[int] = []
        report = store.learn(sweeps=8).run(lambda sweep: reported_sweeps.append(sweep.sweep))
        assert reported_sweeps == list(range(1, report.sweeps + 1))
    with hg.open(store_url) as store:
        learning = store.learn(sweeps=8)
        for sweep in learning:
            assert sweep.log_likelihood is not None
            if sweep.sweep == 3:
                break
        assert store.store.lease() is None
        assert learning.report is None or not learning.report.finished
        seen = [sweep.sweep for sweep in store.learn(sweeps=8)]
        assert 3 + len(seen) == report.sweeps
    with open_store(whole) as one, open_store(store_url) as other:
        assert contents(one)[0] == contents(other)[0]


def test_suspended_learning_ends_when_learning_is_started_again(new: hg.GrammarStore) -> None:
    new.add(PAIRS)
    kept = iter(new.learn(sweeps=3))
    next(kept)
    assert new.store.lease() is not None
    assert new.learn(sweeps=3).run().finished
    assert new.store.lease() is None
    with pytest.raises(RuntimeError, match="already started"):
        list(new._learning or ())


def test_learning_aligns_unaligned_pairs(new: hg.GrammarStore) -> None:
    new.add([(source, target) for source, target, _ in PAIRS])
    learning = new.learn(sweeps=2)
    learning.run()
    assert learning.aligned is not None
    assert learning.aligned.pairs == len(PAIRS)


def test_while_another_writer_holds_the_lease_learning_fails_and_withdrawing_names_it(opened: hg.GrammarStore) -> None:
    with open_store(opened.store.engine.url.render_as_string(hide_password=False)) as other, holding_lease(other, "me"):
        with pytest.raises(StoreHeldError, match="me"):
            opened.learn(sweeps=1).run()
        asked = opened.withdraw([1])
        assert asked.writer is not None
        assert asked.writer.command == "me"


@pytest.mark.database("sqlite", "postgres")
def test_several_threads_read_while_one_learns(new: hg.GrammarStore) -> None:
    new.add([(pair.source, pair.target, pair.alignment) for pair in some_pairs(40)])
    failed: list[BaseException] = []

    def read() -> None:
        try:
            for _ in range(5):
                rules = new.rules()
                assert len(rules) == len(rules.column("id"))
                new.status()
        except BaseException as error:
            failed.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    new.learn(sweeps=5).run()
    for reader in readers:
        reader.join()
    assert not failed


@pytest.mark.slow
def test_grammars_are_exported_published_and_packed(opened: hg.GrammarStore, tmp_path: Path) -> None:
    manifest = opened.export(tmp_path / "grammar.moses.gz", max_scope=1)
    assert (manifest.format, manifest.compression) == ("moses", "gzip")
    for _ in range(3):
        made = opened.publish(tmp_path / "versions", "news", keep=2, format="jsonl")
    assert made.pruned
    assert hg.Decoder(opened).pack(tmp_path / "grammar.packed") > 10
    line = opened.rules(source="la").top(1)[0]
    assert hg.Decoder(tmp_path / "grammar.packed").translate("la").text == line.target


@pytest.mark.database("sqlite", "postgres")
def test_evidence_scores_terms_and_diagnosis_of_a_store_are_computed(opened: hg.GrammarStore) -> None:
    found = hg.evidence(opened, "la maison", pairs=2)
    assert found.rules
    assert len(found.pairs) <= 2
    scored = list(hg.score(opened, ids=[2, 1]))
    assert {one.number for one in scored} == {1, 2}
    [given, empty] = hg.score(opened, [("la maison", "the house"), ("", "x")])
    assert given.score is not None
    assert (empty.number, empty.score) == (2, None)
    with pytest.raises(InputError, match="pair 99 not found"):
        list(hg.score(opened, ids=[99]))
    assert list(hg.score(opened, ids=[], keep=True)) == []
    assert list(opened.store.scores(0)) == []
    assert len(list(hg.score(opened, keep=True))) == len(opened.store.scores(0)) > 2
    assert list(hg.kept_scores(opened, [])) == []
    assert [one.number for one in hg.kept_scores(opened, [1])] == [1]
    assert hg.diagnose(opened, chains=2, sweeps=16).chains == 2
    assert hg.terms(opened, min_count=2, min_words=1).pairs == len(LINES)
    assert opened.repair(dry_run=True).changed is False
    assert opened.events(limit=1).last >= 0


def test_a_copy_of_a_store_replaces_a_file_only_with_force(tmp_path: Path) -> None:
    with hg.open(tmp_path / "one.db", create=True) as store:
        store.add(PAIRS)
        size = store.back_up(tmp_path / "two.db")
        assert size > 1_000
        with pytest.raises(UsageError, match=r"two\.db: already exists"):
            store.back_up(tmp_path / "two.db")
        assert store.back_up(tmp_path / "two.db", force=True) == size
        with pytest.raises(UsageError, match="is the store itself"):
            store.back_up(tmp_path / "one.db", force=True)
    with hg.open(tmp_path / "two.db") as copy:
        assert copy.status().pairs["waiting"] == len(PAIRS)
        assert "GrammarStore" in repr(copy)


def test_sentences_and_files_get_the_same_links(opened: hg.GrammarStore, files: Path) -> None:
    from_files = hg.align("news.fr", "news.en", seed=3)
    sources, targets, _ = zip(*PAIRS, strict=True)
    links = list(hg.align(sources, targets, seed=3))
    assert list(from_files) == links
    assert len(links) == len(from_files) == len(PAIRS)
    assert all(0 < probability <= 1 for pair in links for _, _, probability in pair)
    assert list(from_files.lines()) == [" ".join(f"{i}-{j}" for i, j, _ in pair) for pair in links]
    assert len(hg.align(sources, targets, priors=opened)) == len(PAIRS)


def test_translations_do_not_depend_on_threads_or_grammar_source(
    opened: hg.GrammarStore, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened.export("grammar.cdec.gz", max_scope=2)
    decoder, follower = hg.Decoder("grammar.cdec.gz"), hg.Decoder(opened)
    lines = ["la maison", "", "une fleur"]
    translated = [found.text for found in decoder.translate_all(lines, threads=2)]
    assert translated == [decoder.translate(line).text for line in lines]
    assert translated == [follower.translate(line).text for line in lines]
    several = [one.text for one in decoder.translate("la maison voit une fleur", best=9).candidates]
    assert len(several) == len(set(several)) > 1
    assert capsys.readouterr().out == ""


TREES = ["(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)))", "(S (NP (DT a) (NN dog)) (VP (VBZ sleeps)))"]


def test_a_treebank_is_ingested_and_learned_and_its_grammar_parses_sentences(store_url: str, tmp_path: Path) -> None:
    (tmp_path / "trees").write_text("".join(tree + "\n" for tree in TREES * 3))
    with hg.open(store_url, create=True, grammar="trees", annealing=5) as store:
        assert store.add(tmp_path / "trees").totals.accepted == 6
        with pytest.raises(WrongKindError, match="cannot ingest sentence pairs"):
            store.add(PAIRS)
        with pytest.raises(UsageError, match="ingests one file"):
            store.add(tmp_path / "trees", tmp_path / "trees")
        store.learn(sweeps=5).run()
        parsed = hg.parse(["the dog sleeps", "", "the cat sleeps"], store)
        rules = store.rules(current_sample=True)
        (tmp_path / "fragments").write_text("".join(f"{rule.target} ||| {rule.count}\n" for rule in rules))
    assert [one.found for one in parsed] == [True, True, True]
    assert parsed[1].tree == ""
    assert "(NN dog)" in parsed[0].tree
    (tmp_path / "lines").write_text("the dog sleeps\n")
    [again] = hg.parse(tmp_path / "lines", tmp_path / "fragments", method="mpd")
    assert "(NN dog)" in again.tree


INTERRUPTED = """
import sys
import hierogram as hg
store = hg.open(sys.argv[1])
print("ready", flush=True)
try:
    if sys.argv[2] == "loop":
        for sweep in store.learn(sweeps=100_000):
            print("sweep", flush=True)
    else:
        store.learn(sweeps=100_000).run(lambda sweep: print("sweep", flush=True))
except KeyboardInterrupt:
    # Ctrl-C may have cut off the last line.
    print()
    print(store.store.lease(), sum(store.status().pairs.values()), store.status().sweeps)
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["loop", "run"])
def test_ctrl_c_ends_learning_and_leaves_a_consistent_store_with_committed_sweeps(store_url: str, way: str) -> None:
    with hg.open(store_url, create=True) as store:
        store.add([(pair.source, pair.target, pair.alignment) for pair in some_pairs(30)])
    arguments = [sys.executable, "-c", INTERRUPTED, store_url, way]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "sweep\n":
                break
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        *_, last = process.stdout.read().splitlines()
    assert process.returncode == 0
    held, pairs, sweeps = last.split()
    assert (held, pairs) == ("None", "30")
    assert int(sweeps) > 1
    with hg.open(store_url) as store:
        assert store.verify().problems == []
        assert store.store.unfinished_run() is not None


def test_only_an_upgraded_store_has_a_previous_schema(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_store(store_url)
    with hg.open(store_url, upgrade=True) as store:
        assert store.upgraded_from is None
    monkeypatch.setattr("hierogram.daemon.library.store.upgrade_schema", lambda _url: ("0001", "0002"))
    with hg.open(store_url, upgrade=True) as store:
        assert store.upgraded_from == "0001"


def test_pairs_are_read_by_id_with_links_derivation_and_expected_rules(opened: hg.GrammarStore) -> None:
    pair = opened.pair(1)
    source, target, links = PAIRS[0]
    assert (pair.id, pair.source, pair.target, pair.state) == (1, source, target, "settled")
    assert " ".join(f"{i}-{j}" for i, j in pair.links) == links
    assert pair.derivation()[0].source_span == (0, len(source.split()))
    uses = [rule.expected_uses for rule in pair.expected_rules()]
    assert uses == sorted(uses, reverse=True)
    assert uses[-1] > 0
    rule = pair.derivation()[0]
    assert 1 in {using.id for using in opened.pairs_using(rule.source, rule.target)}


def test_an_unknown_pair_id_is_refused(opened: hg.GrammarStore) -> None:
    with pytest.raises(InputError, match="pair 99 not found"):
        opened.pair(99)


# Messages, and the calls with invalid arguments that cause them.
CALLS: list[tuple[str, Callable[[Any], object]]] = [
    ("sweeps: expected an integer, got '3'", lambda store: store.learn("3")),
    ("sweeps: expected an integer, got 2.5", lambda store: store.learn(2.5)),
    ("sweeps: must be >= 0, got -1", lambda store: store.learn(-1)),
    ("sweeps: must be <= 9223372036854775807, got 1000", lambda store: store.learn(10**20)),
    ("source: expected a string, got 5", lambda store: store.rules(source=5)),
    ("containing: expected a string, got 5", lambda store: store.rules(containing=[5])),
    ("limit: must be >= 0, got -1", lambda store: store.rules(limit=-1)),
    ("limit: must be <= 9223372036854775807, got 1000", lambda store: store.rules(limit=10**20)),
    ("limit: must be >= 0, got -1", lambda store: store.query("SELECT 1", limit=-1)),
    ("limit: must be >= 0, got -1", lambda store: store.pairs_using("la", "the", limit=-1)),
    ("limit: must be >= 0, got -1", lambda store: store.events(limit=-1)),
    ("limit: must be >= 0, got -1", lambda store: hg.nearest(store, "la", limit=-1)),
    ("after: must be >= 0, got -1", lambda store: store.events(after=-1)),
    ("kinds: must be one of .*, got 'odd'", lambda store: store.events(kinds=["odd"])),
    ("threads: must be >= 1, got 0", lambda store: store.learn(threads=0)),
    ("likelihood_every: must be >= 1, got 0", lambda store: store.learn(likelihood_every=0)),
    ("keep: must be >= 1, got 0", lambda store: store.publish("versions", keep=0)),
    ("keep: expected an integer, got 2.5", lambda store: store.publish("versions", keep=2.5)),
    ("name: '../news': must consist of", lambda store: store.publish("versions", "../news")),
    (
        "weight: must be <= 1000, got 2000",
        lambda store: store.add("terms.tsv", dictionary_options=hg.DictionaryOptions(weight=2_000)),
    ),
    ("folder/ is a folder", lambda store: store.export("folder/")),
    ("text: expected a string, got None", lambda store: hg.Decoder(store).translate(None)),
    ("best: must be >= 1, got 0", lambda store: hg.Decoder(store).translate("la", best=0)),
    ("best: must be >= 1, got -1", lambda store: hg.Decoder(store).translate("la", best=-1)),
    ("threads: must be >= 1, got 0", lambda store: hg.Decoder(store).translate_all(["la"], threads=0)),
    (
        "threads: must be >= 1, got 0",
        lambda store: hg.tune(store, "dev.fr", "dev.en", "weights.toml", threads=0),
    ),
    ("best: expected an integer, got True", lambda store: hg.Decoder(store).translate_all(["la"], best=True)),
]


@pytest.mark.parametrize(("message", "call"), CALLS, ids=[message for message, _ in CALLS])
def test_errors_name_the_invalid_argument(
    opened: hg.GrammarStore, message: str, call: Callable[[hg.GrammarStore], object]
) -> None:
    with pytest.raises(UsageError, match=message):
        call(opened)


def test_words_of_rules_are_given_as_a_list_or_a_string(opened: hg.GrammarStore) -> None:
    words = PAIRS[0][0].split()[:2]
    found = [rule.id for rule in opened.rules(containing=words)]
    assert found
    assert [rule.id for rule in opened.rules(containing=" ".join(words))] == found
    assert len(opened.rules(limit=np.int64(2))) == 2


@pytest.mark.database("sqlite", "postgres")
def test_pair_ids_out_of_range_are_not_found_and_a_limit_out_of_range_is_refused(opened: hg.GrammarStore) -> None:
    large = 10**20
    for call in (
        lambda: opened.pair(large),
        lambda: opened.set_links({large: hg.KnownLinks()}),
        lambda: opened.withdraw([large]),
        lambda: list(hg.score(opened, ids=[large])),
    ):
        with pytest.raises(InputError, match=r"pair .*found"):
            call()
    with pytest.raises(UsageError, match="limit: must be <= 9223372036854775807"):
        opened.events(0, limit=large)


def test_pairs_are_selected_by_one_id_or_several(new: hg.GrammarStore) -> None:
    new.add(PAIRS)
    assert new.withdraw(1).pairs == 1
    assert new.withdraw(np.array([2, 3])).pairs == 2
    assert new.withdraw(pandas.Series([4])).pairs == 1


def test_withdrawals_and_scores_of_an_unknown_pair_id_are_refused(new: hg.GrammarStore) -> None:
    new.add(PAIRS)
    with pytest.raises(InputError, match="no pair with these ids found"):
        new.withdraw(99)
    with pytest.raises(InputError, match="pair 99 not found"):
        list(hg.kept_scores(new, 99))


def test_itg_store_refuses_human_links(tmp_path: Path) -> None:
    with hg.open(tmp_path / "itg.db", create=True, grammar="itg") as store:
        store.add([("a b", "x y")])
        with pytest.raises(WrongKindError, match="cannot use links; nothing was stored"):
            store.set_links({1: hg.KnownLinks(frozenset({(0, 1)}))})


def test_human_links_are_set_checked_and_removed(new: hg.GrammarStore) -> None:
    new.add([(source, target) for source, target, _ in PAIRS])
    new.learn(sweeps=1).run()
    fixed = frozenset({(0, 1)})
    assert new.set_links({1: hg.KnownLinks(fixed)}) is None
    assert new.set_links({1: hg.KnownLinks([(0, 1)], np.zeros((0, 2)))}) is None
    assert (0, 1) in new.pair(1).links
    assert new.verify().human_links == 1
    for links, message in (
        ({1: hg.KnownLinks(frozenset({(9, 9)}))}, "out of range"),
        ({1: hg.KnownLinks([(0.5, 0)])}, "entry 0 is not a link"),
        ({1: hg.KnownLinks(), 77: hg.KnownLinks()}, "pair 77 not found; nothing was stored"),
    ):
        with pytest.raises(InputError, match=message):
            new.set_links(links)
    assert new.verify().human_links == 1
    new.set_links({1: hg.KnownLinks()})
    assert new.verify().human_links == 0


@pytest.mark.database("sqlite", "postgres")
def test_sql_queries_return_rows_up_to_a_limit_and_cannot_delete(opened: hg.GrammarStore, store_url: str) -> None:
    asked_by = create_sql_role(store_url)
    found = opened.query("SELECT id, source FROM sentence_pairs ORDER BY id", limit=2, sql_url=asked_by)
    assert found.columns == ["id", "source"]
    assert found.rows == [(1, PAIRS[0][0]), (2, PAIRS[1][0])]
    assert found.more
    assert opened.query("SELECT id FROM sentence_pairs", limit=0, sql_url=asked_by) == (["id"], [], True)
    everything = opened.query("SELECT id FROM sentence_pairs", limit=10**10, sql_url=asked_by)
    assert (len(everything.rows), everything.more) == (opened.store.count_pairs(), False)
    with pytest.raises(hg.StoreError):
        opened.query("DELETE FROM rules", sql_url=asked_by)


def test_learning_from_an_empty_store_finishes_without_sweeps(new: hg.GrammarStore) -> None:
    report = new.learn(sweeps=3).run()
    assert (report.pairs, report.sweeps, report.finished) == (0, 0, True)
    assert list(new.learn(sweeps=3)) == []
