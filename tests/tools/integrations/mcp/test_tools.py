"""The MCP tools, called by the client of the package `mcp`: in process, over standard streams, and over HTTP."""

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from tests.daemon.web.conftest import FakeService
from tests.daemon.web.running import HttpThread

import hierogram as hg
from hierogram.daemon.web.protocol.threads import ThreadPools
from hierogram.tools.integrations.mcp_server import McpTools, make_server
from hierogram.tools.translation.options import TranslateOptions
from hierogram.tools.translation.store_translator import StoreTranslator

READING = ["evidence", "translate", "align", "terms", "concordance"]
TOKEN = "a token of sixteen"
PAIRS = [
    ("La maison est verte.", "The house is green."), ("La porte", "The door"), ("La maison", "The house"),
    ("L'eau", "The water"),
]  # fmt: skip


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("mcp") / "s.db"
    with hg.open(path, create=True, languages=("fr", "en"), tokenize=True, case="lowered", seed=7) as store:
        store.add(PAIRS * 5)
        store.learn(4).run()
        return store.url


@pytest.fixture
def opened(url: str) -> Iterator[hg.GrammarStore]:
    with hg.open(url) as store:
        yield store


async def ask(client: Client, tool: str, **arguments: Any) -> Any:
    """Return the structured result of a tool. Fails if the tool reports an error."""
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    found = answer.structured_content
    return found["result"] if found and found.keys() == {"result"} else found


async def round_trip(client: Client) -> None:
    """Call every reading tool and check its result."""
    assert [tool.name for tool in (await client.list_tools()).tools][: len(READING)] == READING
    evidence = await ask(client, "evidence", sentence="La maison est verte", characters=60)
    assert ("verte = green" in evidence, len(evidence) <= 60) == (True, True)
    assert await ask(client, "evidence", sentence="L'eau") == "<corpus>\nl'eau\n\tthe water\n</corpus>"
    assert (await ask(client, "translate", text="La maison"))["text"] == "The house"
    assert (await ask(client, "translate", text="<b>La maison</b>", format="html"))["text"] == "<b>The house</b>"
    linked = await ask(client, "align", source="La maison", target="The house")
    assert (linked["source"], [link[:2] for link in linked["links"]]) == (["la", "maison"], [[0, 0], [1, 1]])
    [term] = await ask(client, "terms", containing="porte")
    assert (term["source"], term["target"], term["pairs"]) == ("la porte", "the door", 5)
    # Terms are searched for and returned as text, not as tokens.
    [term] = await ask(client, "terms", containing="l'eau")
    assert (term["source"], term["target"]) == ("l'eau", "the water")
    for phrase in ("la porte", "the door"):
        lines = await ask(client, "concordance", phrase=phrase, limit=2)
        assert [line["source"] for line in lines] == ["la porte"] * 2


def build_server(store: hg.GrammarStore, *, may_add: bool = False) -> Any:
    tools = McpTools(store, StoreTranslator(store, TranslateOptions()))
    return make_server(tools, ThreadPools(), may_add=may_add)


def test_every_reading_tool_returns_results_in_process(opened: hg.GrammarStore) -> None:
    async def run() -> None:
        async with Client(build_server(opened)) as client:
            await round_trip(client)
            assert await ask(client, "concordance", phrase="la girafe") == []

    asyncio.run(run())


def test_pairs_are_added_only_if_allowed(opened: hg.GrammarStore) -> None:
    async def run() -> None:
        async with Client(build_server(opened)) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == READING
        async with Client(build_server(opened, may_add=True)) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == [*READING, "add_pair"]
            number = await ask(client, "add_pair", source="La girafe", target="The giraffe")
            assert opened.pair(number).target == "the giraffe"
            assert (await ask(client, "translate", text="La girafe"))["text"] == "The giraffe"

    asyncio.run(run())


def test_errors_are_reported_to_the_model(opened: hg.GrammarStore) -> None:
    async def run() -> None:
        async with Client(build_server(opened)) as client:
            answer = await client.call_tool("evidence", {"sentence": "la " * 300})
            assert (answer.is_error, "the limit is 200" in str(answer.content)) == (True, True)
            answer = await client.call_tool("evidence", {"sentence": "la", "characters": 0})
            assert answer.is_error
            answer = await client.call_tool("evidence", {"sentence": "la", "limit": 3, "chars": 9})
            assert answer.is_error
            assert "evidence: unknown arguments chars, limit: expected sentence, characters" in str(answer.content)

    asyncio.run(run())


@pytest.mark.slow
def test_the_mcp_command_serves_tools_over_standard_input_and_output(url: str) -> None:
    async def run() -> None:
        command = [*["-m", "hierogram.daemon.cli.main", "--store"], url, "mcp"]
        async with Client(StdioServerParameters(command=sys.executable, args=command)) as client:
            await round_trip(client)

    asyncio.run(run())


@pytest.mark.slow
def test_a_daemon_serves_tools_over_http_to_clients_with_the_token(opened: hg.GrammarStore) -> None:
    async def run(address: str) -> None:
        shown = httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"})
        async with shown, Client(streamable_http_client(address, http_client=shown)) as client:
            await round_trip(client)
        async with httpx2.AsyncClient() as bare:
            assert (await bare.post(address, json={})).status_code == 401

    running = HttpThread(FakeService(opened.store), mcp="read", token=TOKEN)
    try:
        host, port = running.loop.address or ("", 0)
        asyncio.run(run(f"http://{host}:{port}/mcp"))
    finally:
        running.end()


def test_a_missing_mcp_package_is_reported(opened: hg.GrammarStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    with pytest.raises(hg.UsageError, match=r"pip install '\.\[mcp\]'"):
        build_server(opened)
