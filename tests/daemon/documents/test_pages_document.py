"""Commands, pictures and pages in docs/pages.md exist and work."""

import re
import shlex
from pathlib import Path

from starlette.testclient import TestClient
from tests.daemon.conftest import Run, create_learned_store

from hierogram.daemon.configuration import HttpConfiguration
from hierogram.daemon.web.application import build_browser
from hierogram.storage.browsing.reader import Reader

DOCS = Path(__file__).parents[3] / "docs"
DOCUMENT = (DOCS / "pages.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", DOCUMENT, re.DOTALL)
COMMANDS = [shlex.split(line) for block in BLOCKS for line in block.splitlines() if not line.startswith("psql")]
ADDRESS = "http://127.0.0.1:8470"


def test_commands_in_the_document_of_the_pages_run(hierogram: Run, corpus: Path, tmp_path: Path) -> None:
    create_learned_store(f"sqlite:///{tmp_path}/hierogram-demo.db", corpus)
    assert [arguments[:2] for arguments in COMMANDS] == [
        ["hierogram", "browse"], ["curl", "-s"], ["hierogram", "export"],
    ]  # fmt: skip
    browse, curl, datasette = COMMANDS
    assert hierogram(*datasette[1:]).code == 0
    with Reader(browse[2]) as reader:
        client = TestClient(build_browser(reader, HttpConfiguration()), ADDRESS)
        found = client.get(curl[2].removeprefix(ADDRESS)).json()
    assert found["rules"][0]["source"] == "ne [X,1] pas"


def test_pictures_of_the_document_exist_and_are_small() -> None:
    shown = re.findall(r"\]\((figures/[\w-]+\.png)\)", DOCUMENT)
    assert len(set(shown)) == 9
    for name in shown:
        picture = (DOCS / name).read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert len(picture) < 300_000


def test_documented_configuration_keys_exist() -> None:
    for key in ("pages", "sql", "sql_seconds", "token"):
        assert f"`{key}" in DOCUMENT
        assert key in HttpConfiguration.model_fields
