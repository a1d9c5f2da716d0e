"""Use every public function, with only the package installed: `python smoke.py FOLDER`."""

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import hierogram as hg

PAIRS = [
    ("la maison", "the house", "0-0 1-1"),
    ("la fleur", "the flower", "0-0 1-1"),
    ("une maison", "a house", "0-0 1-1"),
    ("une fleur", "a flower", "0-0 1-1"),
    ("la maison blanche", "the white house", "0-0 1-2 2-1"),
]
TREES = "(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)))\n(S (NP (DT a) (NN dog)) (VP (VBZ sleeps)))\n"


def expect(call: Callable[[], object], error: type[Exception], named: str) -> None:
    caught: Exception | None = None
    try:
        call()
    except Exception as raised:
        caught = raised
    assert isinstance(caught, error), caught
    assert isinstance(caught, hg.StoreError | hg.DaemonError | hg.SamplerError)
    assert named in str(caught)


MEMORY = """<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4"><header srclang="fr" datatype="plaintext" segtype="sentence" adminlang="en" o-tmf="x"
 creationtool="x" creationtoolversion="1"/><body><tu tuid="7"><tuv xml:lang="fr"><seg>une porte</seg></tuv>
<tuv xml:lang="en"><seg>a door</seg></tuv></tu></body></tmx>
"""


def use_a_store(folder: Path) -> None:
    with hg.open(folder / "store.db", create=True, seed=3) as store:
        assert store.url
        assert isinstance(store.settings(), hg.Settings)
        assert store.settings().seed == 3
        assert store.add(PAIRS).totals.accepted == len(PAIRS)
        assert [sweep.sweep for sweep in store.learn(sweeps=2)][-1] == 28
        table = store.rules()
        assert isinstance(table, hg.RuleTable)
        assert table.__arrow_c_stream__()
        assert hg.Rule.parse(f"{table[0].source} ||| {table[0].target}")
        assert store.rules(source="maison", limit=1)[0].target == "house"
        assert store.export(folder / "grammar.cdec.gz", options=hg.ExportOptions(max_scope=2)).rules
        assert store.publish(folder / "versions", keep=1).manifest.rules
        assert hg.Decoder(store).pack(folder / "grammar.packed")
        assert hg.evidence(store, "la maison", options=hg.EvidenceOptions(pairs=1)).rules
        assert len(list(hg.score(store))) == len(PAIRS)
        assert hg.terms(store, options=hg.TermOptions(min_count=2, min_words=1)).pairs == len(PAIRS)
        assert hg.diagnose(store, options=hg.ChainOptions(chains=2, sweeps=8)).chains == 2
        assert store.status().rules_in_use
        assert store.grammar_kind().singular == "pair"
        assert store.upgraded_from is None
        store.aligner.prepare([("la maison", "the house")])
        with store.reader.read() as look:
            assert look.settings() == store.settings()
        assert store.writer() is None
        assert list(hg.kept_scores(store)) == []
        assert store.pair(1).links == [(0, 0), (1, 1)]
        assert isinstance(store.pair(1), hg.StoredPair)
        rule = store.rules(current_sample=True).top(1, "count")[0]
        assert store.index() == 0
        assert store.pairs_using(rule.source, rule.target)
        assert store.find_rules("maison").rules[0].target == "house"
        for use in (lambda: hg.nearest(store, "la maison"), lambda: "".join(hg.memory(store))):
            assert "the house" in str(use())
        assert [pair.id for pair in store.pairs()] == [1, 2, 3, 4, 5]
        assert store.set_links({1: hg.KnownLinks(frozenset({(0, 0)}), frozenset())}) is None
        store.open_query_result("SELECT 1").close()
        assert store.query("SELECT count(*) FROM sentence_pairs").rows == [(len(PAIRS),)]
        assert store.events().events is not None
        assert not store.verify().problems
        assert not store.repair(dry_run=True).changed
        assert store.back_up(folder / "copy.db")
        assert hg.Decoder(store).translate("une maison").text == "a house"
        hg.Corrections(store).put("une maison", "one house", "smoke test")
        assert hg.Decoder(store).translate("une maison", format="text").text == "one house"
        store.withdraw(corpus="corrections")
        (folder / "memory.tmx").write_text(MEMORY, encoding="utf-8")
        assert store.synchronize(folder / "memory.tmx", "memory", languages=("fr", "en")).added.totals.accepted == 1
        assert list(hg.align(["la maison"], ["the house"], priors=store, options=hg.AlignOptions(seed=2)))
        for grammar in (store, folder / "grammar.cdec.gz", folder / "grammar.packed"):
            decoder = hg.Decoder(grammar, options=hg.TranslateOptions(max_scope=2))
            assert decoder.translate("une maison").text == "a house"
            assert [one.text for one in decoder.translate_all(["la fleur"], threads=1)] == ["the flower"]
        (folder / "terms.csv").write_text("source,target\nchat,cat\n")
        assert store.add(folder / "terms.csv", dictionary_options=hg.DictionaryOptions()).totals.accepted == 1
        assert store.withdraw(corpus="dictionary").pairs == 1


def use_texts(folder: Path) -> None:
    texts = {"fr": [source for source, _, _ in PAIRS], "en": [target for _, target, _ in PAIRS]}
    texts["align"] = [links for _, _, links in PAIRS]
    for name, lines in texts.items():
        (folder / name).write_text("".join(line + "\n" for line in lines))
    report = hg.lm(folder / "en", folder / "english.lm", options=hg.EstimationOptions(order=2))
    assert report.sentences == len(PAIRS)
    decoder = hg.Decoder(folder / "grammar.cdec.gz", lm=folder / "english.lm")
    assert decoder.translate("la maison").text == "the house"
    assert hg.evaluate_links(folder / "align", folder / "align").aer == 0
    assert not hg.diff(folder / "grammar.cdec.gz", folder / "grammar.cdec.gz").changed
    bleu = hg.EvaluationOptions(metrics=("bleu",))
    for extra, use in (
        ("sacrebleu", lambda: hg.evaluate(folder / "en", folder / "en", options=bleu)),
        ("scipy", lambda: hg.tune(
            folder / "grammar.cdec.gz", folder / "fr", folder / "en", folder / "weights.toml",
            options=hg.TuningOptions(iterations=1), threads=1,
        )),
    ):  # fmt: skip
        if find_spec(extra):
            assert use()
        else:
            expect(use, hg.UsageError, extra)


def use_trees(folder: Path) -> None:
    (folder / "trees").write_text(TREES)
    assert hg.evaluate_trees(folder / "trees", folder / "trees")["all"].f1 == 1
    with hg.open(folder / "trees.db", create=True, grammar="trees", annealing=3) as store:
        store.add(folder / "trees", transformations=hg.Transformations())
        store.learn(sweeps=2).run()
        [parsed] = hg.parse(["the dog sleeps"], store, options=hg.ParseRequest(method="mpd"))
        assert parsed.found


def use_chains() -> None:
    for model in (hg.PitmanYor(0.4), hg.DirichletProcess(2.0)):
        for schedule in (hg.Schedule(1, 2), hg.Annealing(3), hg.quick_schedule(), hg.stratified_schedule(), None):
            with hg.sample(PAIRS, model=model, schedule=schedule, threads=1) as chain:
                assert isinstance(chain, hg.SampledChain)
                assert len(chain.run(3).trace) == 3
                assert chain.step().log_likelihood == chain.log_likelihood() < 0
                assert len(chain.rules())
                assert chain.state is not None


def use_errors(folder: Path) -> None:
    for call, error in (
        (lambda: hg.open(folder / "none.db"), hg.StoreMissingError),
        (lambda: hg.open(folder / "x.db", create=True, discount=2.0), hg.UsageError),
        (lambda: hg.sample([]), hg.InputError),
        (lambda: hg.Rule.parse("a"), hg.SamplerError),
    ):
        expect(call, error, "")
    assert issubclass(hg.NothingLearnedError, hg.DaemonError)
    assert issubclass(hg.StoreHeldError, hg.StoreError)


def main(folder: Path) -> None:
    use_errors(folder)
    use_chains()
    use_a_store(folder)
    use_texts(folder)
    use_trees(folder)
    print(f"hierogram {hg.__version__}: everything works")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
