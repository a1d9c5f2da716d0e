"""docs/daemon.md names every key of the configuration, with its default and what it is for, and its examples hold."""

import re
import shlex
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.daemon.conftest import LINES, Run

from hierogram.daemon.configuration import Configuration, load_configuration

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "daemon.md").read_text()


def sections() -> dict[str, type[BaseModel]]:
    found: dict[str, type[BaseModel]] = {"At the top": Configuration}
    for name, field in Configuration.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found[f"[{name}]"] = field.annotation
    return found


def rows_of(model: type[BaseModel]) -> list[str]:
    """The rows that the document has to have for the model."""
    rows = []
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            continue
        default = field.get_default(call_default_factory=True)
        shown = (
            "none" if default in (None, ()) else str(default).lower() if isinstance(default, bool) else f"`{default}`"
        )
        rows.append(f"| `{name}` | {shown} | {field.description} |")
    return rows


@pytest.mark.parametrize("title", sections())
def test_every_key_is_documented_as_it_is(title: str) -> None:
    part = DOCUMENT.split(f"\n### {title}\n", 1)[1].split("\n### ")[0]
    assert [line for line in part.splitlines() if line.startswith("| `")] == rows_of(sections()[title])


def test_no_section_is_documented_that_is_none() -> None:
    assert re.findall(r"^### (.*)$", DOCUMENT.split("## Configuration")[1], re.MULTILINE) == list(sections())


def test_the_example_of_a_configuration_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIEROGRAM_STORE", raising=False)
    [example] = re.findall(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL)
    file = tmp_path / "daemon.toml"
    file.write_text(example)
    assert load_configuration(file).spool.folder == Path("/var/spool/hierogram")


def test_the_withdrawals_of_the_document_run(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("".join(line + "\n" for line in LINES * 3))
    named = '{"id": "news-17", "source": "la", "target": "the", "alignment": [[0, 0]]}\n'
    (tmp_path / "named").write_text(named)
    assert hierogram("--store", "sqlite:///news.db", "ingest", "lines").code == 0
    assert hierogram("--store", "sqlite:///news.db", "ingest", "--corpus", "news", "named").code == 0
    shown = [shlex.split(line) for line in DOCUMENT.splitlines() if line.startswith("hierogram withdraw")]
    assert len(shown) == 2
    for _, *arguments in shown:
        assert hierogram(*arguments).code == 0, arguments
