"""Use every public function once, with nothing installed but the package: `python smoke.py FOLDER`."""

import sys
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


def use_a_store(folder: Path) -> None:
    with hg.open(folder / "store.db", create=True, settings=hg.Settings(seed=3)) as store:
        assert store.url
        assert store.settings().seed == 3
        assert store.add(PAIRS, limits=hg.Limits()).totals.accepted == len(PAIRS)
        assert [sweep.sweep for sweep in store.learn(sweeps=2)][-1] == 28
        table = store.rules()
        assert isinstance(table, hg.RuleTable)
        assert table.__arrow_c_stream__()
        assert hg.Rule.parse(f"{table[0].source} ||| {table[0].target}")
        assert store.rules(source="maison", limit=1)[0].target == "house"
        assert store.export(folder / "grammar.cdec.gz", options=hg.ExportOptions(max_scope=2)).rules
        assert store.publish(folder / "versions", keep=1).manifest.rules
        assert store.pack(folder / "grammar.packed")
        assert store.evidence("la maison", options=hg.EvidenceOptions(pairs=1)).rules
        assert len(list(store.score(options=hg.ScoreOptions(masks=4)))) == len(PAIRS)
        assert store.terms(options=hg.TermOptions(min_count=2, min_words=1, common=1.0)).pairs == len(PAIRS)
        assert store.diagnose(options=hg.ChainOptions(chains=2, sweeps=8)).chains == 2
        assert store.status().rules
        assert store.events().events is not None
        assert not store.verify().problems
        assert not store.repair(keep=False).changed
        assert store.back_up(folder / "copy.db")
        assert list(hg.align(["la maison"], ["the house"], priors=store, options=hg.Request(seed=2)))
        for grammar in (store, folder / "grammar.cdec.gz", folder / "grammar.packed"):
            decoder = hg.Decoder(grammar, options=hg.TranslateOptions(max_scope=2))
            assert decoder.translate("une maison").text == "a house"
            assert [one.text for one in decoder.translate_all(["la fleur"], threads=1)] == ["the flower"]
        (folder / "terms.csv").write_text("source,target\nchat,cat\n")
        assert store.add(folder / "terms.csv", entries=hg.Entries()).totals.accepted == 1
        assert store.withdraw(corpus="dictionary").pairs == 1


def use_trees(folder: Path) -> None:
    (folder / "trees").write_text(TREES)
    with hg.open(folder / "trees.db", create=True, grammar="trees", annealing=3) as store:
        store.add(folder / "trees", transformations=hg.Transformations())
        store.learn(sweeps=2).run()
        [parsed] = hg.parse(["the dog sleeps"], store, options=hg.ParseRequest(method="mpd"))
        assert parsed.found


def use_chains() -> None:
    for model in (hg.PitmanYor(0.4), hg.DirichletProcess(2.0)):
        for schedule in (hg.Schedule(1, 2), hg.Annealing(3), hg.quick_schedule()):
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
        met: Exception | None = None
        try:
            call()
        except Exception as raised:
            met = raised
        assert isinstance(met, error), met
        assert isinstance(met, hg.StoreError | hg.DaemonError | hg.SamplerError)
    assert issubclass(hg.NothingLearnedError, hg.DaemonError)
    assert issubclass(hg.StoreHeldError, hg.StoreError)


def main(folder: Path) -> None:
    use_errors(folder)
    use_chains()
    use_a_store(folder)
    use_trees(folder)
    print(f"hierogram {hg.__version__}: all of it works")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
