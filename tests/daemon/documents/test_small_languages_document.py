"""The first commands of docs/small_languages.md translate running text."""

import re
import shlex
from pathlib import Path

import pytest
from tests.daemon.conftest import Run
from tests.daemon.documents.raw_text import write_files

DOCUMENT = (Path(__file__).parents[3] / "docs" / "small_languages.md").read_text()


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_the_first_commands_translate_running_text(hierogram: Run, tmp_path: Path) -> None:
    write_files(tmp_path, 400, 20)
    for name, copied in (("corpus.en", "train.en"), ("corpus.sw", "train.fr"), ("news.en", "test.en")):
        (tmp_path / name).write_bytes((tmp_path / copied).read_bytes())
    block = re.findall(r"```sh\n(.*?)```", DOCUMENT, re.DOTALL)[0]
    for line in block.splitlines():
        ran = hierogram(*shlex.split(line)[1:])
        assert ran.code == 0, (line, ran.err)
        assert "to tokenize it" not in ran.err
    lines = (tmp_path / "news.sw").read_text().splitlines()
    assert len(lines) == 20
    assert all(line[-1] in ".!" and " " not in line[-2:].replace("\u00a0", " ").strip() for line in lines)
    assert all(line[0].isupper() or line[0] in "«“" for line in lines)
