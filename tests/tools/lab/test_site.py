"""The site is built without warnings, and a broken link is an error."""

import re
from pathlib import Path

import pytest

import hierogram as hg
from hierogram.daemon.exceptions import UsageError
from hierogram.tools.lab import site


@pytest.mark.slow
def test_the_built_site_has_its_pages_and_llms_txt_names_them(tmp_path: Path) -> None:
    site.build(tmp_path)
    made = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.html")}
    assert {"index.html", "library.html", "notebooks/priors.html", "decisions/library.html", "reference.html"} <= made
    llms = (tmp_path / "llms.txt").read_text()
    named = re.findall(r"^- \[.+?\]\((.+?)\): .", llms, re.MULTILINE)
    assert len(named) > 30
    assert all((tmp_path / name).is_file() for name in named)


@pytest.mark.slow
def test_a_broken_link_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = site.pages() | {"tuning.md": "# Tuning\n\n[nowhere](nowhere.md)\n"}
    monkeypatch.setattr(site, "pages", lambda: pages)
    with pytest.raises(UsageError, match=r"nowhere\.md"):
        site.build(tmp_path)


def test_the_reference_documents_every_public_name() -> None:
    headings = set(re.findall(r"^## (\w+)$", site.reference(), re.MULTILINE))
    assert headings == set(hg._MODULES)
    assert "### GrammarStore.learn" in site.reference()


def test_links_to_source_files_become_plain_text() -> None:
    page = "[a](../samplers/kernel.py) [b](sql.md#rules) ![c](figures/trees.png) [d](https://e.org)"
    assert site._plain_sources("model.md", page) == "a [b](sql.md#rules) ![c](figures/trees.png) [d](https://e.org)"
