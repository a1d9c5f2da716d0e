"""The daemon compiles everything that a translation needs before it reports that it is ready."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.tools.translation.small import lm_file

TRANSLATING = """
import sys
from pathlib import Path
from hierogram.daemon.configuration import LogSection
from hierogram.tools.translation.language_models import convert
from hierogram.daemon.progress import progress
from hierogram.daemon.serving.logs import open_log
from hierogram.daemon.serving.service import prepare_kernels
from hierogram.storage.store import open_store
with progress("lm", "n-grams") as shown:
    convert(sys.argv[2], [Path(sys.argv[3])], shown)
with open_store(sys.argv[1]) as store:
    prepare_kernels(store.settings(), open_log(LogSection()), http=True)
from numba.core.dispatcher import Dispatcher

def compiled():
    return {
        f"{module.__name__}.{name}": len(kernel.signatures)
        for module in list(sys.modules.values()) if getattr(module, "__name__", "").startswith("hierogram.")
        for name, kernel in vars(module).items() if isinstance(kernel, Dispatcher)
    }

before = compiled()
from hierogram.tools.translation.resources import GrammarFollower, TranslationResources, load_resources
from hierogram.tools.translation.options import TranslateOptions
from hierogram.tools.translation.text_translator import TextTranslator, as_plain
with open_store(sys.argv[1]) as store:
    for model in (None, sys.argv[3]):
        equipment = load_resources(TranslateOptions(lm=model))
        translator, _ = GrammarFollower(store, equipment).newest()
        for line in ("la maison ne vient pas", "<np translation='the house'>la maison</np> xyz", ""):
            for best in (1, 5):
                found = TextTranslator(translator).translate(line, format="tokens", best=best, markup=True)
                assert as_plain(found)["source"] or not line
now = compiled()
print(sorted(name for name in before if now[name] > before[name]))
print(sum(map(bool, before.values())))
"""
"""Script that prints the kernels compiled by a translation after the warm-up, and the number compiled before."""


@pytest.mark.slow
@pytest.mark.database("sqlite")
@pytest.mark.timeout(600)
def test_a_translation_compiles_nothing_after_the_warm_up(learned_url: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", TRANSLATING, learned_url, str(lm_file(tmp_path)), str(tmp_path / "small.lm")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    late, number = done.stdout.splitlines()[-2:]
    assert late == "[]"
    assert int(number) > 5
