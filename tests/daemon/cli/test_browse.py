"""`hierogram browse` serves the pages of a store without a daemon, until a signal."""

import os
import signal
import subprocess
import sys
import urllib.request
from importlib.resources import files

import pytest
from tests.daemon.conftest import Run

from hierogram.daemon.web.pages.rendering import STATIC


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("HIEROGRAM_")}


@pytest.mark.slow
@pytest.mark.parametrize(("store_url", "how"), [("sqlite", "argument"), ("postgres", "option")], indirect=["store_url"])
def test_browse_serves_pages_until_a_signal(learned_url: str, how: str) -> None:
    store = [learned_url] if how == "argument" else ["--store", learned_url]
    command = [sys.executable, "-m", "hierogram.daemon.cli.main", "browse", *store, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split(" at ")[1].strip()
        with urllib.request.urlopen(f"{address}search.json?q=maison", timeout=60) as answer:
            assert b'"la maison"' in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) in (0, 130, -signal.SIGINT)


def test_browse_refuses_missing_stores_and_public_hosts_without_token(hierogram: Run) -> None:
    missing = hierogram("browse", "nothing.db")
    assert (missing.code, "no store at" in missing.err) == (3, True)
    assert hierogram("browse", "a.db", "--store", "b.db").code == 2
    assert hierogram("init").code == 0
    open_to_all = hierogram("browse", "hierogram.db", "--host", "0.0.0.0")
    assert (open_to_all.code, "set token" in open_to_all.err) == (2, True)


def test_package_contains_files_and_templates_of_pages() -> None:
    """Data files that the package has here are also in the wheel, because the build includes whole folders."""
    package = files("hierogram.daemon.web.pages")
    for name in STATIC:
        assert package.joinpath("static", *name.split("/")).is_file()
    assert package.joinpath("templates", "base.html").is_file()
    assert files("hierogram.storage.browsing").joinpath("cookbook.sql").is_file()
