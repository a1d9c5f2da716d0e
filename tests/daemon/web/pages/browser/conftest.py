"""A real browser that opens the daemon's pages.

Without chromium these tests are skipped with a message. In continuous integration (CI=true) they fail.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect, sync_playwright
from tests.daemon.web.conftest import FakeService
from tests.daemon.web.running import HttpThread

from hierogram.storage.store import Store

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
CHROMIUM = "/usr/bin/chromium"
TIMEOUT = 30_000
"""Milliseconds until an action or an expectation fails. The first translation compiles the decoder."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Chromium for the tests of a module. Playwright keeps an event loop in this thread."""
    path = CHROMIUM if Path(CHROMIUM).exists() else shutil.which("chromium")
    if path is None:
        missing = f"no browser: install Debian's package chromium ({CHROMIUM})"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    expect.set_options(timeout=TIMEOUT)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Function that serves the pages of a store and returns their URL."""
    with ExitStack() as stack:

        def start(store: Store, **values: object) -> str:
            running = HttpThread(FakeService(store), **values)
            stack.callback(running.end)
            host, port = running.loop.address or ("", 0)
            return f"http://{host}:{port}"

        yield start


Visit = Callable[..., Any]


@pytest.fixture
def visit(chromium: Any) -> Iterator[Visit]:
    """Function that opens a page. Fails afterwards if a page requested another host or logged a message."""
    logged: list[str] = []
    hosts: set[str] = set()
    wanted: set[str] = set()
    with ExitStack() as stack:

        def open_page(address: str, **options: object) -> Any:
            context = chromium.new_context(**options)
            stack.callback(context.close)
            context.set_default_timeout(TIMEOUT)
            wanted.add(urlsplit(address).netloc)
            context.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
            page = context.new_page()
            page.on("console", lambda message: logged.append(message.text))
            page.on("pageerror", lambda error: logged.append(str(error)))
            page.on("dialog", lambda dialog: (logged.append(f"dialog: {dialog.message}"), dialog.dismiss()))
            page.goto(address)
            return page

        yield open_page
        assert hosts <= wanted
        assert logged == []
