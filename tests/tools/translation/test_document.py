"""The example, the weights and the options in docs/decoding.md are correct."""

import re
import shlex
import tomllib
from pathlib import Path

from tests.daemon.conftest import Run

from hierogram.daemon.exports.formats import DEFAULT_WEIGHTS

DOCUMENT = (Path(__file__).parents[3] / "docs" / "decoding.md").read_text(encoding="utf-8")


def test_the_documented_example_prints_its_translation_and_links(hierogram: Run, tmp_path: Path) -> None:
    example = DOCUMENT.split("## Example")[1]
    [code] = re.findall(r"```sh\n(.*?)```", example.split("\n## ")[0], re.DOTALL)
    [(name, content)] = re.findall(r"cat > (\S+) <<'END'\n(.*?)END\n", code, re.DOTALL)
    (tmp_path / name).write_text(content)
    [(text, file)] = re.findall(r"echo '(.*)' > (\S+)", code)
    (tmp_path / file).write_text(text + "\n")
    ran = hierogram(*shlex.split(code.splitlines()[-1])[1:])
    translation, links = re.findall(r"prints `(.*?)`.*?word links `(.*?)`", example, re.DOTALL)[0]
    assert (ran.code, ran.out) == (0, translation + "\n")
    assert (tmp_path / "out.al").read_text() == links + "\n"


def test_the_documented_weights_are_the_nonzero_defaults() -> None:
    [shown] = re.findall(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL)
    assert tomllib.loads(shown)["weights"] == {name: value for name, value in DEFAULT_WEIGHTS.items() if value}


def test_every_documented_option_exists(hierogram: Run) -> None:
    output = hierogram("translate", "--help").out
    for option in re.findall(r"`(--[a-z-]+)", DOCUMENT.split("## Options")[1]):
        assert option in output or option == "--store", option
