"""The code in docs/library.md runs from top to bottom, including the short research script."""

import ast
import re
from pathlib import Path

import pytest
from tests.daemon.conftest import LINES, write_news

import hierogram as hg

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "library.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.slow
def test_code_of_the_library_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_news(tmp_path)
    (tmp_path / "news.pipes").write_text("".join(line + "\n" for line in LINES))
    names: dict[str, object] = {}
    assert len(BLOCKS) > 4
    for block in BLOCKS:
        exec(compile(block, "library.md", "exec"), names)
    assert "||| " in capsys.readouterr().out
    store = names["store"]
    assert isinstance(store, hg.GrammarStore)
    assert (tmp_path / "grammar.cdec.gz").is_file()
    store.close()


def test_library_page_lists_all_methods_and_existing_functions() -> None:
    for name in re.findall(r"\bhg\.(\w+)", PAGE):
        assert hasattr(hg, name), name
    table = PAGE.split("| method |")[1].split("\n\n")[0]
    methods = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    names = {name for name in vars(hg.GrammarStore) if not name.startswith("_")}
    assert methods <= names
    assert names - methods == {"close", "url"}
    functions = PAGE.split("| function |")[1].split("\n\n")[0]
    for name in re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in functions.splitlines())):
        assert hasattr(hg, name), name


def test_the_research_script_is_short() -> None:
    [script] = [block for block in BLOCKS if "hg.sample" in block]
    assert len(script.splitlines()) <= 40
    assert any(isinstance(node, ast.With) for node in ast.parse(script).body)
