"""Files of a given size are made, and memory and seconds of both forms are told."""

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_both_forms_are_measured() -> None:
    command = [sys.executable, "-m", "hierogram.tools.lab.translating_memory", "--rules", "2000", "--ngrams", "3000"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text, binary = json.loads(done.stdout)
    assert (text["form"], binary["form"]) == ("text", "binary")
    for form in (text, binary):
        assert 20 < form["mib"] < 1000
        assert form["sentence_seconds"] > 0
        assert form["model_seconds"] > 0
