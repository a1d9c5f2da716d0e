"""The commands of docs/tutorial.md run: raw text translates as well as tokens, and all interfaces agree."""

import io
import json
import re
import shlex
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.daemon.conftest import Run
from tests.daemon.documents.raw_text import write_files
from tests.daemon.web.conftest import FakeService

import hierogram as hg
from hierogram.daemon.configuration import load_configuration
from hierogram.daemon.web.application import build_app
from hierogram.storage.store import open_store

pytestmark = [pytest.mark.database("sqlite"), pytest.mark.timeout(900), pytest.mark.slow]

DOCUMENT = (Path(__file__).parents[3] / "docs" / "tutorial.md").read_text()
COMMANDS, SERVED = (
    [shlex.split(line) for line in block.splitlines()] for block in re.findall(r"```sh\n(.*?)```", DOCUMENT, re.DOTALL)
)
POINTS = 1.5
"""Maximum difference in BLEU between raw text and tokens."""


def bleu(hierogram: Run, *arguments: str) -> float:
    ran = hierogram("evaluate", *arguments, "--metrics", "bleu", "--json")
    [found] = json.loads(ran.out)
    return float(found["scores"][0]["score"])


@pytest.fixture
def last_output(hierogram: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Output of the tutorial's last command, after running all others except `pip install`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HIEROGRAM_STORE", raising=False)
    write_files(tmp_path, 400, 60)
    assert len(COMMANDS) == 10
    assert COMMANDS[0][:2] == ["pip", "install"]
    for words in COMMANDS[1:]:
        if words[0] == "echo":
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(words[1].encode() + b"\n")))
            words = words[words.index("|") + 1 :]
        assert words[0] == "hierogram"
        ran = hierogram(*words[1:])
        assert ran.code == 0, (words, ran.err)
    return ran.out


def test_tutorial_commands_translate_raw_text_as_well_as_tokens_and_all_interfaces_agree(
    hierogram: Run, last_output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from sacremoses import MosesDetokenizer, MosesTokenizer

    assert last_output == "The man looks for a white house.\n"
    assert_python_http_and_the_page_agree(last_output, tmp_path, capsys)
    text = bleu(hierogram, "test.out", "-r", "test.en")
    moses = {language: MosesTokenizer(lang=language) for language in ("fr", "en")}
    for path in [*tmp_path.glob("*.fr"), *tmp_path.glob("*.en")]:
        lines = path.read_text().splitlines()
        divided = [moses[path.suffix[1:]].tokenize(line, return_str=True, escape=False) for line in lines]
        path.with_stem(f"hand.{path.stem}").write_text("".join(line + "\n" for line in divided))
    own = ("--store", "hand.db")
    weights = "--lm hand.lm --weights hand.toml"
    for command in (
        "ingest hand.train.fr hand.train.en", "learn --sweeps 30", "lm hand.train.en -o hand.lm --tokenized",
        "tune hand.dev.fr -r hand.dev.en --lm hand.lm --iterations 3 -o hand.toml",
        f"translate hand.test.fr {weights} -o hand.out",
    ):  # fmt: skip
        ran = hierogram(*own, *command.split())
        assert ran.code == 0, (command, ran.err)
    joined = MosesDetokenizer(lang="en")
    lines = (tmp_path / "hand.out").read_text().splitlines()
    (tmp_path / "joined.out").write_text("".join(joined.detokenize(line.split()) + "\n" for line in lines))
    hand = bleu(hierogram, "joined.out", "-r", "test.en")
    assert hand > 60
    assert abs(text - hand) < POINTS


class Texts(HTMLParser):
    """HTML parser that collects the text of the translations on a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found = ""
        self._inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "p":
            self._inside = ("aria-label", "Translation; use the arrow keys to move between words") in attrs

    def handle_endtag(self, tag: str) -> None:
        self._inside &= tag != "p"

    def handle_data(self, data: str) -> None:
        self.found += data if self._inside else ""


def assert_python_http_and_the_page_agree(last_output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [code] = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    exec(code, {})
    assert capsys.readouterr().out == last_output
    lines = (tmp_path / "test.fr").read_text().splitlines()
    expected = (tmp_path / "test.out").read_text().splitlines()
    with hg.open("tutorial.db") as store:
        decoder = hg.Decoder(store, lm="english.lm", weights="english.toml")
        assert [found.text for found in decoder.translate_all(lines)] == expected
        without = hg.Decoder(store).translate(lines[0]).text
        assert hg.Decoder(store).translate(lines[0]).text == without
    [toml] = re.findall(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL)
    (tmp_path / "daemon.toml").write_text(toml)
    configuration = load_configuration(tmp_path / "daemon.toml")
    assert configuration.store == tomllib.loads(toml)["store"]
    with open_store(configuration.store) as opened:
        app = build_app(FakeService(opened), configuration)
        with TestClient(app, "http://127.0.0.1") as client:
            [command] = SERVED
            response = client.post(
                "/v1/translate", content=command[-2].encode(), headers={"Content-Type": "application/json"}
            )
            assert response.json()["sentences"][0]["translation"] + "\n" == last_output
            answer = client.post("/v1/translate", json={"sentences": lines}).json()
            assert [one["translation"] for one in answer["sentences"]] == expected
            html = client.post("/v1/translate", json={"sentences": [f"<p>{lines[0]}</p>"], "format": "html"}).json()
            assert html["sentences"][0]["translation"] == f"<p>{expected[0]}</p>"
            for line, text in list(zip(lines, expected, strict=True))[:10]:
                assert client.get("/translate.json", params={"q": line}).json()["translation"] == text
                assert Texts(client.get("/translate", params={"q": line}).text).found == text
