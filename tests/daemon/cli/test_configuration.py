"""The daemon's configuration: precedence of sources, and errors that prevent the start."""

from pathlib import Path

import pytest

from hierogram.daemon.configuration import load_configuration
from hierogram.daemon.exceptions import UsageError
from hierogram.samplers.synchronous.sweeps import Blocks

_EXPORT = "[[exports]]\nname = 'nightly'\nto = '/srv/grammars'\nevery = '1d'\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("HIEROGRAM_STORE", raising=False)
    return tmp_path / "hierogram.toml"


def test_the_command_line_overrides_the_environment_which_overrides_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('store = "file.db"\n[spool]\nfolder = "in"\ncorpus = "news"\npoll_seconds = 3\n')
    assert load_configuration(file).store == "file.db"
    monkeypatch.setenv("HIEROGRAM_STORE", "environment.db")
    monkeypatch.setenv("HIEROGRAM_SPOOL__POLL_SECONDS", "0.5")
    found = load_configuration(file, store=None, spool_folder=Path("elsewhere"))
    assert found.store == "environment.db"
    assert (found.spool.folder, found.spool.corpus, found.spool.poll_seconds) == (Path("elsewhere"), "news", 0.5)
    assert load_configuration(file, store="given.db").store == "given.db"


def test_a_file_may_begin_with_a_byte_order_mark(file: Path) -> None:
    file.write_text('\ufeffstore = "marked.db"\n', encoding="utf-8")
    assert load_configuration(file).store == "marked.db"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[spool]\nfodler = 'in'\n", r"hierogram.toml: spool.fodler: unknown key"),
        ("stoer = 'x.db'\n", r"hierogram.toml: stoer: unknown key"),
        ("[sampling]\nthreads = '4'\n", r"hierogram.toml: sampling.threads: Input should be a valid integer, got '4'"),
        ("[sampling]\nidle_share = 2\n", r"sampling.idle_share: Input should be less than or equal to 1, got 2"),
        ("sampling = 5\n", r"hierogram.toml: sampling: Input should be an object, got 5"),
        ("[log]\nformat = 'xml'\n", r"log.format: String should match"),
        (_EXPORT + "keeps = 3\n", r"hierogram.toml: exports.0.keeps: unknown key"),
        (_EXPORT + "max_scope = -1\n", r"hierogram.toml: exports.0.max_scope: must be >= 0, got -1"),
        (_EXPORT + "max_scope = 'two'\n", r"exports.0.max_scope: Input should be a valid integer, got 'two'"),
        (_EXPORT + "format = 'word'\n", r"exports.0.format: must be one of cdec, moses"),
        ("[spool\n", r"hierogram.toml: invalid TOML: .*line 1"),
    ],
)
def test_configuration_errors_contain_file_key_and_reason(file: Path, text: str, complaint: str) -> None:
    file.write_text(text)
    with pytest.raises(UsageError, match=complaint):
        load_configuration(file)


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("HIEROGRAM_SAMPLING__THREADS", "four", "environment: HIEROGRAM_SAMPLING__THREADS: Input should be a valid"),
        ("HIEROGRAM_SAMPLING__THREDS", "4", "environment: HIEROGRAM_SAMPLING__THREDS: unknown key"),
        ("HIEROGRAM_SAMPLNIG__THREADS", "4", r"HIEROGRAM_SAMPLNIG__THREADS: unknown section \[samplnig\]"),
    ],
)
def test_configuration_errors_contain_the_environment_variable(
    file: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, complaint: str
) -> None:
    file.write_text("[sampling]\nthreads = 2\n")
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=complaint):
        load_configuration(file)


def test_missing_configuration_file_is_reported(file: Path) -> None:
    with pytest.raises(UsageError, match=r"hierogram\.toml: cannot be read: No such file"):
        load_configuration(file)


def test_sections_with_options_of_commands_are_set_by_file_and_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIEROGRAM_TRANSLATING__POPS", "7")
    monkeypatch.setenv("HIEROGRAM_WORKERS__BLOCKS", "8x4")
    (tmp_path / "c.toml").write_text("[translating]\nmax_scope = 1\n[intake]\nmax_rejected_lines = 5\n")
    found = load_configuration(tmp_path / "c.toml")
    assert (found.translating.max_scope, found.translating.pops) == (1, 7)
    assert (found.workers.parsed(), found.intake.max_rejected_lines) == ((None, Blocks(8, 4)), 5)


def test_invalid_values_and_unknown_keys_in_sections_with_options_of_commands_are_refused(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[scores]\nshare = 2\n")
    with pytest.raises(UsageError, match=r"scores.share: must be <= 1, got 2"):
        load_configuration(tmp_path / "c.toml")
    (tmp_path / "c.toml").write_text("[translating]\ntokenize = 'fr,en'\n")
    with pytest.raises(UsageError, match=r"translating.tokenize: unknown key"):
        load_configuration(tmp_path / "c.toml")
