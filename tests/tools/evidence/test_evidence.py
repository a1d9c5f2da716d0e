"""The `hierogram evidence` command: its formats, limits, errors and documentation."""

import json
import re
import shlex
from pathlib import Path

from tests.daemon.conftest import Run

from hierogram.tools.evidence.sanitizing import enclose

DOCUMENT = (Path(__file__).parents[3] / "docs" / "evidence.md").read_text()


def test_the_documented_evidence_commands_run(hierogram: Run, learned_url: str) -> None:
    lines = [line for block in re.findall(r"```sh\n(.*?)```", DOCUMENT, re.DOTALL) for line in block.splitlines()]
    commands = [shlex.split(line) for line in lines if line.startswith("hierogram evidence")]
    assert len(commands) >= 3
    for _, *arguments in commands:
        ran = hierogram("--store", learned_url, *arguments)
        assert ran.code == 0, (arguments, ran.err)
        assert ran.out


def test_evidence_is_printed_as_json_prompt_or_tables(hierogram: Run, learned_url: str) -> None:
    for wanted in (["--json"], ["--format", "json"]):
        found = json.loads(hierogram("--store", learned_url, "evidence", "la maison", *wanted).out)
        assert found["words"] == ["la", "maison"]
    assert hierogram("--store", learned_url, "evidence", "la", "--format", "prompt").out.endswith("target:\n")
    ran = hierogram("--store", learned_url, "evidence", "la nouvelle maison")
    assert ran.out.startswith("source\ttarget\tp(target|source)\tuses\twords\n")
    assert "\n\npair\tcorpus\tsource\ttarget\n" in ran.out
    assert "nouvelle" in ran.err


def test_rules_and_pairs_are_chosen_within_a_character_limit(hierogram: Run, learned_url: str) -> None:
    bounded = ("--store", learned_url, "evidence", "la maison est verte", "--format", "prompt", "--characters")
    found = hierogram(*bounded, "60").out.removesuffix("\n")
    assert ("house" in found, "target:" in found, len(found) <= 60) == (True, False, True)
    # The marks around the selection count as well.
    characters = 14 + len(enclose("x")) - 1
    fewer = hierogram(*bounded, str(characters)).out.removesuffix("\n")
    assert 0 < len(fewer) <= characters < len(found)


def test_invalid_sentences_and_options_are_refused(hierogram: Run, learned_url: str) -> None:
    assert hierogram("--store", learned_url, "evidence", " ").code == 3
    assert hierogram("--store", learned_url, "evidence", "la", "--pairs", "-1").code == 2
    assert hierogram("--store", learned_url, "evidence", "la", "--json", "--format", "prompt").code == 2
    bounded = ("--store", learned_url, "evidence", "la", "--characters", "9")
    assert "--format prompt" in hierogram(*bounded).err
    assert "--pairs are mutually exclusive" in hierogram(*bounded, "--format", "prompt", "--pairs", "3").err
