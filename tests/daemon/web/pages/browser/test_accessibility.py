"""Accessibility of the pages as checked by axe: many scripts and lengths, light and dark, wide and narrow."""

from collections.abc import Iterable, Iterator
from itertools import pairwise, product
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect
from tests.conftest import CopyStore
from tests.daemon.conftest import QUICK
from tests.daemon.web.pages.browser.conftest import Serve, Visit
from tests.daemon.web.pages.texts import LONG, SCRIPTS, learn_from, odd_pairs, odd_tokens

from hierogram.storage.browsing.sql_runner import cookbook
from hierogram.storage.records.operations import Webhook
from hierogram.storage.store import Store, open_store

pytestmark = pytest.mark.database("sqlite")

WIDE, NARROW = {"width": 1200, "height": 800}, {"width": 360, "height": 740}
APPEARANCES = {
    "light": {"viewport": WIDE, "color_scheme": "light"},
    "dark": {"viewport": WIDE, "color_scheme": "dark"},
    "narrow": {"viewport": NARROW, "color_scheme": "light"},
    "narrow and dark": {"viewport": NARROW, "color_scheme": "dark"},
}


@pytest.fixture
def many(store_url: str, copy_store: CopyStore) -> Iterator[Store]:
    """A store of pairs of many scripts and lengths, and of odd words."""

    def make(url: str) -> None:
        with open_store(url, create=True, settings=QUICK) as store:
            learn_from(store, [*SCRIPTS, *odd_pairs(odd_tokens(60, 3))])

    copy_store("many", store_url, make)
    with open_store(store_url) as store:
        yield store


LONG_PAIR = 5
TEXT = f"הבית הלבן גדול\n\n我 喜欢 红 房子. {LONG}"


def paths(store: Store) -> list[str]:
    """Return paths of pages of many kinds, one of them with an error."""
    rule = store.find_rules(limit=1)[0]
    sides = f"source={quote(rule.source)}&target={quote(rule.target)}"
    return [
        "/", f"/search?q={quote('הבית')}", f"/search?q={quote('红')}&order=surprise", "/search?q=nowhere",
        f"/rule?{sides}", f"/rule/pairs?{sides}", "/pairs/1", "/pairs/7", f"/word?token={quote('我')}", "/now",
        "/sql?sql=SELECT+source,+count+FROM+rules+LIMIT+9", "/pairs/1/withdraw",
        f"/translate?q={quote(TEXT)}", f"/translate/near?q={quote(TEXT)}", f"/translate?q={quote('a' * 5001)}",
    ]  # fmt: skip


def violations(page: Any) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{entry['id']}: {[node['html'][:120] for node in entry['nodes'][:3]]}" for entry in found]


@pytest.mark.slow
def test_pages_are_accessible(many: Store, serve: Serve, visit: Visit) -> None:
    appearance = "narrow" if many.url.startswith("sqlite") else "dark"
    check_pages(visit(serve(many), **APPEARANCES[appearance]), paths(many))


@pytest.mark.slow
def test_the_translation_page_is_accessible(learned: Store, serve: Serve, visit: Visit) -> None:
    check_translation_page(learned, serve, visit, [(390, "light"), (1280, "dark")])


@pytest.mark.campaign
def test_the_translation_page_is_accessible_in_every_appearance(learned: Store, serve: Serve, visit: Visit) -> None:
    check_translation_page(learned, serve, visit, product((390, 1280), ("light", "dark")))


def check_translation_page(store: Store, serve: Serve, visit: Visit, looks: Iterable[tuple[int, str]]) -> None:
    address = serve(store)
    for width, scheme in looks:
        page = visit(address, viewport={"width": width, "height": 800}, color_scheme=scheme)
        check_pages(page, ["/translate", "/translate?q=La+maison+verte.%0A%0ALa+maison.+Xyz&corrected=stored"])
        page.locator(".translated .w").first.hover()
        expect(page.locator(".phrases tr.lit").first).to_be_attached()
        page.locator(".phrases").first.scroll_into_view_if_needed()
        assert violations(page) == []


@pytest.mark.campaign
@pytest.mark.parametrize("appearance", APPEARANCES)
def test_pages_are_accessible_in_every_appearance(many: Store, serve: Serve, visit: Visit, appearance: str) -> None:
    rules = [
        f"/rule?source={quote(rule.source)}&target={quote(rule.target)}" for rule in many.find_rules(limit=400)[::20]
    ]
    words = [f"/word?token={quote(word)}" for word in ("הבית", "red", LONG.split()[7], *odd_tokens(60, 3)[::6])]
    pairs = [f"/pairs/{number}" for number in range(2, 17)]
    recipes = [f"/sql?sql={quote(recipe.sql)}" for recipe in cookbook()[::4]]
    check_pages(visit(serve(many), **APPEARANCES[appearance]), [*paths(many), *rules, *words, *pairs, *recipes])


@pytest.mark.slow
def test_pages_of_an_empty_store_are_accessible(store: Store, serve: Serve, visit: Visit) -> None:
    page = visit(serve(store), **APPEARANCES["dark" if store.url.startswith("sqlite") else "narrow"])
    expect(page.get_by_role("heading", name="Nothing learned yet")).to_have_count(1)
    expect(page.locator(".empty pre").first).to_contain_text("ingest")
    check_pages(page, ["/", "/now"])


def check_pages(page: Any, places: list[str]) -> None:
    address = page.url.rstrip("/")
    for path in places:
        page.goto(address + path)
        page.wait_for_load_state()
        if page.locator("[hx-trigger=load]").count():
            page.wait_for_selector("#pairs:not([hx-get]), #near:not([hx-get])", state="attached")
        page.evaluate("for (const part of document.querySelectorAll('.translated details')) part.open = true")
        assert violations(page) == [], path
        across = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert across[0] <= across[1], f"{path} is wider than the window: {across}"


@pytest.mark.slow
def test_error_pages_are_accessible(many: Store, serve: Serve, chromium: Any) -> None:
    address = serve(many)
    page = chromium.new_page()
    for path in ("/nowhere", "/sql?sql=SELEC", "/search?min_count=x"):
        assert page.goto(address + path).status >= 400
        assert violations(page) == [], path
    page.close()


@pytest.mark.slow
def test_hebrew_words_are_shown_from_right_to_left(many: Store, serve: Serve, visit: Visit) -> None:
    page = visit(f"{serve(many)}/pairs/1")
    source, target = page.locator(".texts .sentence").all()
    assert (source.get_attribute("dir"), target.get_attribute("dir")) == ("rtl", "ltr")
    places = [box["x"] for box in (word.bounding_box() for word in source.locator(".w").all())]
    assert places == sorted(places, reverse=True)
    drawn = page.locator("svg.trees .word").all()
    across = [box["x"] for box in (word.bounding_box() for word in drawn[:3])]
    assert across == sorted(across, reverse=True)
    source.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#status")).to_have_text("הלבן – white")


@pytest.mark.slow
def test_a_pair_of_two_hundred_words_is_shown_with_its_links(many: Store, serve: Serve, visit: Visit) -> None:
    page = visit(f"{serve(many)}/pairs/{LONG_PAIR}")
    expect(page.locator(".texts .sentence").first.locator(".w")).to_have_count(200)
    expect(page.locator("svg.trees .arc")).to_have_count(200)
    expect(page.locator("[role=alert]")).to_have_count(0)
    expect(page.locator("tr.expected").first).to_be_attached()
    page.locator(".texts .sentence").first.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("End")
    expect(page.locator("#status")).to_have_text("word199 – wort199")
    page.locator(".texts .sentence .w").nth(150).hover()
    assert set(page.locator(".texts .w.lit").all_text_contents()) == {"word150", "wort150"}
    boxes = [word.bounding_box() for word in page.locator("svg.trees .word").all()[:200:10]]
    assert all(left["x"] + left["width"] < right["x"] for left, right in pairwise(boxes))


@pytest.mark.slow
def test_words_of_languages_without_spaces_are_drawn_separately(many: Store, serve: Serve, visit: Visit) -> None:
    # Search for the whole side, because the words of rules outside the last sample are not indexed.
    page = visit(f"{serve(many)}/search?match=whole")
    page.locator("#q").fill("红")
    page.keyboard.press("Enter")
    page.wait_for_selector("table.rules")
    page.goto(page.url.split("/search")[0] + "/pairs/3")
    page.locator(".texts .w", has_text="房子").hover()
    assert set(page.locator(".texts .w.lit").all_text_contents()) == {"房子", "house"}
    # The drawing separates words of any width.
    for side in ("s", "t"):
        boxes = [word.bounding_box() for word in page.locator(f"svg.trees .word[data-key^={side}]").all()]
        assert all(left["x"] + left["width"] <= right["x"] for left, right in pairwise(boxes))


@pytest.mark.slow
def test_a_narrow_screen_hides_no_number(many: Store, serve: Serve, visit: Visit) -> None:
    page = visit(f"{serve(many)}/search?q=word", viewport={"width": 390, "height": 740})
    for cell in page.locator("table.rules td").all()[:12]:
        box = cell.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    numbers = page.locator("table.rules .num")
    assert numbers.count() >= 2
    for number in numbers.all()[:6]:
        box = number.bounding_box()
        assert box["x"] + box["width"] <= 390
    assert page.get_by_role("columnheader").count() >= 2
    assert violations(page) == []


@pytest.mark.slow
def test_the_live_page_fits_a_narrow_screen(learned: Store, serve: Serve, visit: Visit) -> None:
    file = "corpora/monday/an-archive-with-a-long-name.tar.gz"
    learned.record_failed_file(
        file, "news", f"{file}: damaged gzip data", lambda: f"/var/spool/hierogram/failed/{file}"
    )
    learned.queue_deliveries(Webhook("5ca1ab1e", "https://example.org:443"), ["file-failed"])
    learned.record_failed_file(
        file, "news", f"{file}: damaged gzip data", lambda: f"/var/spool/hierogram/failed/{file}"
    )
    learned.queue_deliveries(Webhook("5ca1ab1e", "https://example.org:443"), ["file-failed"])
    page = visit(f"{serve(learned)}/now", viewport={"width": 390, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    tables = page.locator("table.stack")
    assert [table.get_attribute("aria-label") for table in page.locator("div.wide").all()] == [
        "Arrivals", "Failed files", "Webhooks", "Loops"
    ]  # fmt: skip
    for table in tables.all():
        heads = table.locator("th").all_text_contents()
        cells = table.locator("tbody tr").first.locator("td").all()
        labels = [cell.get_attribute("data-label") for cell in cells]
        assert labels == [head.replace(" (UTC)", "") for head in heads]
        for cell in cells:
            if cell.text_content():
                box = cell.bounding_box()
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= 390
                assert box["width"] >= 80
    assert "damaged gzip data" in (page.locator("[aria-label='Failed files']").text_content() or "")
