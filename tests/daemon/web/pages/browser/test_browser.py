"""Using the pages in a real browser: with the keyboard only, with the mouse, and without JavaScript."""

from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect
from tests.daemon.web.pages.browser.conftest import Serve, Visit

from hierogram.daemon.learning.learning import learn
from hierogram.storage.store import Store

pytestmark = pytest.mark.database("sqlite")

TOKEN = "a token of some length"
MAX_TABS = 80


def tab_to(page: Any, selector: str) -> None:
    """Press Tab until the selected element has the focus. Fails after `MAX_TABS` presses."""
    for _ in range(MAX_TABS):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} does not get the focus")


def highlighted(page: Any) -> set[str]:
    return set(page.locator(".sentence .w.lit").all_text_contents())


@pytest.mark.slow
def test_a_rule_is_found_and_a_pair_withdrawn_with_the_keyboard_only(
    learned: Store, serve: Serve, visit: Visit
) -> None:
    uses = learned.find_rules("ne [X,1] pas", "not [X,1]")[0].count
    page = visit(serve(learned))
    page.keyboard.type("ne _ pas")
    page.keyboard.press("Enter")
    page.wait_for_selector("table.rules")
    assert page.locator("tbody .rule").first.text_content().replace("\n", "") == "ne X1 pas→ to not X1"

    tab_to(page, "a.rule")
    page.keyboard.press("Enter")
    page.wait_for_url("**/rule?*")
    expect(page.locator("dt:has-text('Current uses') + dd")).to_have_text(str(uses))

    page.wait_for_selector(".concordance")
    marked = page.locator(".concordance li").first.locator(".marked").all_text_contents()
    assert marked == ["ne", "pas", "not"]
    tab_to(page, ".sentence")
    for _ in range(3):
        if "pas" in highlighted(page):
            break
        page.keyboard.press("ArrowRight")
    while "pas" not in highlighted(page):
        page.keyboard.press("ArrowRight")
    assert highlighted(page) == {"pas", "not"}
    expect(page.locator("#status")).to_have_text("pas – not")

    tab_to(page, ".concordance .number")
    number = page.evaluate("document.activeElement.closest('.pair').dataset.pair")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/pairs/{number}")
    rules = len(page.request.get(f"{page.url}.json").json()["rules"])
    expect(page.locator("svg.trees .node")).to_have_count(2 * rules)
    expect(page.locator("tr.expected").first).to_be_attached()

    tab_to(page, "a.danger")
    page.keyboard.press("Enter")
    page.wait_for_url("**/withdraw")
    tab_to(page, "button.danger")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/withdrawn/{number}")
    expect(page.locator("h1")).to_have_text(f"Pair {number} was withdrawn")
    assert learned.find_pair(int(number)) is None


@pytest.mark.slow
def test_a_rule_is_found_and_a_pair_withdrawn_with_the_mouse(learned: Store, serve: Serve, visit: Visit) -> None:
    address = serve(learned)
    page = visit(address)
    page.locator("#q").click()
    page.locator("#q").fill("ne _ pas")
    page.get_by_role("button", name="Search").click()
    page.locator("a.rule").first.click()
    page.wait_for_selector(".concordance")
    page.locator(".concordance li").first.locator(".w", has_text="pas").hover()
    assert highlighted(page) == {"pas", "not"}
    page.locator(".concordance .number").first.click()
    page.wait_for_selector("svg.trees .node")

    page.goto(f"{address}/pairs/1")
    page.locator(".sentence .w", has_text="blanche").hover()
    assert highlighted(page) == {"blanche", "white"}
    expect(page.locator("svg.trees .word.lit")).to_have_count(2)
    expect(page.locator("svg.trees .arc.lit")).to_have_count(1)
    page.locator("svg.trees .node").first.hover()
    expect(page.locator("svg.trees .node.lit")).to_have_count(2)
    assert highlighted(page) == set()

    page.get_by_role("link", name="Withdraw this pair").click()
    page.get_by_role("button", name="Withdraw").click()
    expect(page.locator("h1")).to_have_text("Pair 1 was withdrawn")
    assert learned.find_pair(1) is None
    page.get_by_role("link", name="SQL").click()
    page.get_by_role("link", name="How many pairs are in each state of sampling?").click()
    expect(page.locator("#result tbody td").first).to_have_text("settled")


@pytest.mark.slow
def test_search_results_update_while_typing(learned: Store, serve: Serve, visit: Visit) -> None:
    page = visit(serve(learned))
    page.locator("#q").press_sequentially("maison")
    page.wait_for_selector("table.rules")
    assert "q=maison" in page.url
    page.locator(".filters summary").click()
    page.locator("select[name=match]").select_option("whole")
    page.wait_for_url("**match=whole*")
    page.wait_for_function("document.querySelectorAll('tbody .rule').length <= 2")
    expect(page.locator("#q")).to_have_value("maison")


DRAWN = "[...document.querySelectorAll('.plot')].map(plot => Number(plot.dataset.points || 0))"


@pytest.mark.slow
def test_curves_are_updated_during_learning(learned: Store, serve: Serve, visit: Visit) -> None:
    address = serve(learned)
    sides = f"source={quote('ne [X,1] pas')}&target={quote('not [X,1]')}"
    rule = visit(f"{address}/rule?{sides}")
    now = visit(f"{address}/now")
    now.wait_for_selector(".curve canvas")
    [likelihood, moves] = now.evaluate(DRAWN)
    now.evaluate("document.querySelector('.curve canvas').id = 'first'")
    uses = rule.locator("dt:has-text('Expected uses') + dd")
    before = uses.text_content()
    assert not rule.locator(".curve").is_visible()

    learn(learned, sweeps=20)
    now.wait_for_function(f"([n, m]) => {{ const now = {DRAWN}; return now[0] > n && now[1] > m }}",
                          arg=[likelihood, moves])  # fmt: skip
    sweeps = learned.status().sweeps
    assert now.locator("#now").get_attribute("data-sweeps") == str(sweeps)
    assert now.evaluate(DRAWN)[1] == sweeps
    # The same canvas shows the new points, and nothing was drawn twice.
    expect(now.locator("#first")).to_have_count(1)
    assert now.locator(".curve canvas").count() == now.locator(".curve").count() == 2

    rule.wait_for_selector(".curve canvas")
    assert rule.evaluate(DRAWN)[0] >= 2
    assert uses.text_content() != before


@pytest.mark.slow
def test_a_cookbook_query_runs_with_the_keyboard(learned: Store, serve: Serve, visit: Visit) -> None:
    page = visit(f"{serve(learned)}/sql")
    tab_to(page, ".recipes a")
    while page.evaluate("document.activeElement.textContent") != "How many pairs are in each state of sampling?":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#result")
    expect(page.locator("#result tbody td").first).to_have_text("settled")
    assert "GROUP BY state" in page.locator("#sql").input_value()


@pytest.mark.slow
def test_a_typed_sql_query_shows_its_result(learned: Store, serve: Serve, visit: Visit) -> None:
    address = serve(learned)
    page = visit(f"{address}/sql")
    page.locator("#sql").fill("SELECT 2 + 3 AS sum")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#result")
    expect(page.locator("#result td")).to_have_text("5")


@pytest.mark.slow
def test_a_text_is_translated_with_the_keyboard_and_corrected(learned: Store, serve: Serve, visit: Visit) -> None:
    page = visit(f"{serve(learned)}/translate", viewport={"width": 390, "height": 800})
    page.keyboard.type("La maison verte")
    page.wait_for_selector(".translated")
    assert "q=La+maison+verte" in page.url
    tab_to(page, "button")
    tab_to(page, ".sentence")
    page.keyboard.press("End")
    assert highlighted(page) == {"verte", "green"}
    expect(page.locator(".phrases tr.lit").first).to_be_attached()
    expect(page.locator("#status")).to_have_text("verte – green")
    page.wait_for_selector("#near .concordance")

    tab_to(page, "summary")
    page.keyboard.press("Enter")
    tab_to(page, "textarea[name=target]")
    page.keyboard.press("Control+A")
    page.keyboard.type("The lawn")
    tab_to(page, ".correct button")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=The correction was stored")
    row = learned.pairs()[-1]
    assert (row.source, row.target) == ("La maison verte", "The lawn")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.slow
def test_a_text_is_translated_and_corrected_without_javascript(learned: Store, serve: Serve, visit: Visit) -> None:
    page = visit(f"{serve(learned)}/translate", java_script_enabled=False)
    page.locator("#text").fill("la maison verte\n\nla maison")
    page.get_by_role("button", name="Translate").click()
    expect(page.locator(".translated")).to_have_count(2)
    page.locator("summary", has_text="Correct this").first.click()
    page.locator("#target1").fill("the lawn")
    page.get_by_role("button", name="Store correction").first.click()
    expect(page.locator("[role=status]")).to_contain_text("The correction was stored")
    expect(page.locator("#text")).to_have_value("la maison verte\n\nla maison")
    page.get_by_role("link", name="Show similar pairs").click()
    expect(page.locator(".concordance li").first).to_be_attached()


@pytest.mark.slow
def test_a_rule_is_found_without_javascript(learned: Store, serve: Serve, visit: Visit) -> None:
    page = visit(serve(learned), java_script_enabled=False)
    page.locator("#q").fill("ne _ pas")
    page.keyboard.press("Enter")
    page.locator("a.rule").first.click()
    page.get_by_role("link", name="Show the pairs").click()
    expect(page.locator(".concordance li")).to_have_count(learned.find_rules("ne [X,1] pas", "not [X,1]")[0].count)
    page.locator(".concordance .number").first.click()
    expect(page.locator("svg.trees")).to_have_count(1)
    page.get_by_role("link", name="Now").click()
    expect(page.locator("h1")).to_have_text("Now")


@pytest.mark.slow
def test_the_token_is_requested_once(learned: Store, serve: Serve, visit: Visit) -> None:
    page = visit(f"{serve(learned, token=TOKEN)}/search?q={quote('ne _ pas')}")
    expect(page.locator("h1")).to_have_text("Sign in")
    page.keyboard.type(TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_selector("table.rules")
    expect(page.locator("#q")).to_have_value("ne _ pas")
    [cookie] = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    page.get_by_role("link", name="Sign out").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator("h1")).to_have_text("Sign in")
