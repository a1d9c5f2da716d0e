"""Pictures of every page of a store: `python -m hierogram.tools.lab.page_pictures hierogram-demo.db docs/figures`.

Needs the package playwright and a chromium. What stands on the pictures comes from the store: that of `hierogram demo`,
unless other words are named.
"""

from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from hierogram.daemon.web.pages.rendering import address
from hierogram.samplers.grammar.rules import Rule, render_side
from hierogram.storage.store import open_store
from hierogram.tools.lab.measures.answers import browsed

_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
_WIDTH, _HEIGHT = 1100, 780
_HIGH = 1_180
_HIGHEST = 1_600
_NARROW = 390
_SETTLING_MS = 600


def make_pictures(
    store: Annotated[str, typer.Argument(help="Store to show.")],
    folder: Annotated[Path, typer.Argument(help="Folder for the pictures.", file_okay=False)],
    search: Annotated[str, typer.Option(help="What is searched for.")] = "λόγος",
    rule: Annotated[str, typer.Option(help="Rule to show.")] = "ἐν [X,1] ||| in [X,1]",
    pair: Annotated[int, typer.Option(help="Pair to show.")] = 3,
    word: Annotated[str, typer.Option(help="Source word to show.")] = "λόγος",
    question: Annotated[str, typer.Option(help="SQL to ask.")] = (
        "SELECT source, target, round(expected_uses, 1) AS uses, scope\n  FROM rule_table\n WHERE nonterminals > 0"
        " AND length > scope + 1\n ORDER BY 3 DESC, source, target\n LIMIT 12"
    ),
    chromium: Annotated[Path, typer.Option(help="The browser.", exists=True)] = Path("/usr/bin/chromium"),
) -> None:
    """Write page-NAME.png for each page, the empty store's among them, and some in the dark and narrow."""
    from playwright.sync_api import sync_playwright

    shown = Rule.parse(rule)
    pages = {
        "search": address("/search", q=search),
        "rule": address("/rule", source=render_side(shown.source), target=render_side(shown.target)),
        "pair": f"/pairs/{pair}",
        "word": address("/word", side="source", token=word),
        "now": "/now",
        "ask": address("/ask", sql=question),
    }
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    site = browsed(store)
    with TemporaryDirectory() as temporary, chdir(temporary), sync_playwright() as playwright:
        open_store("news.db", create=True).close()
        browser = playwright.chromium.launch(executable_path=str(chromium), args=_ARGUMENTS)
        for name, place in pages.items():
            _take(browser, site + place, folder / f"page-{name}.png")
        _take(browser, site + pages["pair"], folder / "page-pair-dark.png", color_scheme="dark")
        _take(browser, site + pages["rule"], folder / "page-rule-narrow.png", narrow=True)
        _take(browser, browsed("news.db"), folder / "page-empty.png")
        browser.close()


def _take(browser: Any, place: str, file: Path, color_scheme: str = "light", narrow: bool = False) -> None:
    context = browser.new_context(
        viewport={"width": _NARROW if narrow else _WIDTH, "height": _HEIGHT}, color_scheme=color_scheme
    )
    page = context.new_page()
    page.goto(place)
    height = _HIGHEST if "/rule" in place and not narrow else _HEIGHT if "/search" in place else _HIGH
    if page.locator("[hx-trigger=load]").count():
        page.wait_for_selector("#pairs:not([hx-get])", state="attached")
    page.wait_for_timeout(_SETTLING_MS)
    words = page.locator(".pair .w[data-to]:not([data-to=''])")
    if words.count() > 2:
        words.nth(2).hover()
        page.wait_for_timeout(_SETTLING_MS)
    size = page.evaluate("[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
    clip = {"x": 0, "y": 0, "width": size[0], "height": min(size[1], height)}
    page.screenshot(path=str(file), full_page=True, clip=clip)
    context.close()


if __name__ == "__main__":
    typer.run(make_pictures)
