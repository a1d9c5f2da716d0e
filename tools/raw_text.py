"""Raw text through every door of a store: BLEU and links beside those of text that was divided into tokens by hand.

    python -m hierogram.tools.raw_text ../shared/data/tatoeba-fr-en --work /tmp/raw

The folder holds `corpus.fr` and `corpus.en`, tokens separated by spaces, of which raw text is made by sacremoses. One
store takes the raw text and divides it, another one takes the same divided by hand.
"""

import argparse
import json
import random
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

LANGUAGES = ("fr", "en")


def _run(*command: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "hierogram.daemon.main", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr}")
    return done.stdout


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(line + "\n" for line in lines))


def make_texts(corpus: Path, folder: Path, pairs: int, held_out: int) -> None:
    """Write raw text and the same divided by hand, both languages, for learning, tuning and testing."""
    from sacremoses import MosesDetokenizer, MosesTokenizer

    sides = [(corpus / f"corpus.{language}").read_text().splitlines() for language in LANGUAGES]
    chosen = random.Random(1).sample(range(len(sides[0])), pairs + 2 * held_out)
    parts = {"train": chosen[:pairs], "dev": chosen[pairs:-held_out], "test": chosen[-held_out:]}
    for language, lines in zip(LANGUAGES, sides, strict=True):
        joined, divided = MosesDetokenizer(lang=language), MosesTokenizer(lang=language)
        for part, numbers in parts.items():
            raw = [str(joined.detokenize(lines[k].split())) for k in numbers]
            _write(folder / f"{part}.raw.{language}", raw)
            _write(
                folder / f"{part}.hand.{language}", [divided.tokenize(r, return_str=True, escape=False) for r in raw]
            )


def _bleu(folder: Path, translations: str) -> float:
    options = ("--metrics", "bleu", "--tokenizer", "none", "--json")
    [found] = json.loads(_run("evaluate", translations, "-r", "test.hand.en", *options, folder=folder))
    return float(found["scores"][0]["score"])


def _served(folder: Path) -> None:
    """Have a daemon translate the raw text of the test set and align pairs of it; writes what it answers."""
    (folder / "serve.toml").write_text('store = "raw.db"\n[translating]\nlm = "raw.lm"\n[http]\nport = 0\n')
    command = [sys.executable, "-m", "hierogram.daemon.main", "serve", "--config", "serve.toml"]
    with (folder / "serve.log").open("w") as log, subprocess.Popen(command, cwd=folder, stderr=log) as daemon:
        try:
            while "http://" not in (said := (folder / "serve.log").read_text()):
                time.sleep(0.5)
            address = "http://" + said.partition("http://")[2].split()[0].strip("\"',}")
            lines = (folder / "test.raw.fr").read_text().splitlines()
            found: list[str] = []
            for start in range(0, len(lines), 100):
                body = json.dumps({"sentences": lines[start : start + 100]}).encode()
                asked = urllib.request.Request(
                    f"{address.rstrip('/')}/v1/translate", body, {"Content-Type": "application/json"}
                )
                with urllib.request.urlopen(asked) as answer:
                    found += [one["translation"] for one in json.load(answer)["sentences"]]
            _write(folder / "served.out", found)
        finally:
            daemon.terminate()


def main() -> None:
    """Print a line for each door."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=12_000)
    parser.add_argument("--held-out", type=int, default=500)
    parser.add_argument("--sweeps", default="30")
    chosen = parser.parse_args()
    folder: Path = chosen.work
    folder.mkdir(parents=True, exist_ok=True)
    make_texts(chosen.corpus, folder, chosen.pairs, chosen.held_out)
    for kind, options in (("raw", ("--languages", "fr,en", "--tokenize")), ("hand", ())):
        store = ("--store", f"{kind}.db")
        _run(*store, "init", *options, folder=folder)
        _run(*store, "ingest", f"train.{kind}.fr", f"train.{kind}.en", folder=folder)
        _run(*store, "learn", "--sweeps", chosen.sweeps, folder=folder)
        _run(*store, "export", "-o", f"{kind}.cdec.gz", folder=folder)
    _run("lm", "train.hand.en", "-o", "hand.lm", folder=folder)
    _run("lm", "train.raw.en", "-o", "raw.lm", "--store", "raw.db", folder=folder)
    same = (folder / "hand.lm").read_bytes() == (folder / "raw.lm").read_bytes()
    print(f"lm --store raw.db       the same file as by hand: {same}")
    (folder / "bare.cdec.gz").write_bytes((folder / "raw.cdec.gz").read_bytes())
    doors: dict[str, tuple[str, ...]] = {
        "by hand": ("translate", "hand.db", "test.hand.fr", "--lm", "hand.lm"),
        "raw, not divided": ("translate", "hand.db", "test.raw.fr", "--lm", "hand.lm", "--tokenized"),
        "translate, store": ("translate", "raw.db", "test.raw.fr", "--lm", "raw.lm"),
        "translate, export": ("translate", "raw.cdec.gz", "test.raw.fr", "--lm", "raw.lm"),
        "translate --tokenize": (
            "translate", "bare.cdec.gz", "test.raw.fr", "--lm", "raw.lm", "--tokenize", "fr,en",
        ),
    }  # fmt: skip
    for number, (door, command) in enumerate(doors.items()):
        _run(*command, "-o", f"{number}.out", folder=folder)
        print(f"{door:22}  BLEU {_bleu(folder, f'{number}.out'):.2f}", flush=True)
    tuned = {}
    for kind in ("hand", "raw"):
        texts = (f"dev.{kind}.fr", "-r", f"dev.{kind}.en", "--lm", f"{kind}.lm", "-o", f"{kind}.toml")
        found = _run("tune", f"{kind}.db", *texts, "--iterations", "1", "--json", folder=folder)
        tuned[kind] = json.loads(found)["rounds"][0]["bleu"]
    print(f"tune, first round       by hand {tuned['hand']:.2f}, raw {tuned['raw']:.2f}")
    divided = {"hand": ["--tokenized"], "raw": ["--tokenize", "fr,en"]}
    links = [_run("align", f"test.{kind}.fr", f"test.{kind}.en", *how, folder=folder) for kind, how in divided.items()]
    print(f"align --tokenize        the same links as by hand: {links[0] == links[1]}")
    # Last, as a daemon samples on.
    _served(folder)
    print(f"{'/v1/translate':22}  BLEU {_bleu(folder, 'served.out'):.2f}")


if __name__ == "__main__":
    main()
