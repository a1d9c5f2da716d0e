"""The systemd unit and the container files agree with the code. Neither systemd nor a container engine is needed."""

import json
import re
import shlex
import tomllib
from configparser import ConfigParser
from importlib.metadata import distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from typer.core import TyperGroup
from typer.main import get_command

from hierogram.daemon.cli.main import app
from hierogram.daemon.configuration import Configuration, HttpConfiguration, load_configuration
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.serving import warm_up
from hierogram.storage.database.connection import parse_url

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONTAINER = re.sub(r"\\\n\s*", " ", (ROOT / "Containerfile").read_text())


class UnitParser(ConfigParser):
    """Parser that preserves the case of keys like systemd."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def command_options(command: str) -> set[str]:
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    found = group.commands[command]
    return {option for parameter in found.params for option in parameter.opts}


def instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.*)$", CONTAINER, re.MULTILINE)


def container_environment() -> dict[str, str]:
    return dict(word.split("=", 1) for line in instructions("ENV") for word in shlex.split(line))


def test_systemd_unit_agrees_with_command_line_and_defaults() -> None:
    unit = UnitParser(strict=False, interpolation=None)
    unit.read(ROOT / "packaging/systemd/hierogram.service")
    service = unit["Service"]
    program, command, *arguments = shlex.split(service["ExecStart"])
    assert Path(program).name in PROJECT["scripts"]
    assert {argument for argument in arguments if argument.startswith("-")} <= command_options(command)
    assert service["Type"] == "notify"
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert float(service["TimeoutStopSec"]) > Configuration().daemon.grace_seconds
    assert float(service["WatchdogSec"]) > 2
    assert service["WorkingDirectory"] == f"/var/lib/{service['StateDirectory']}"
    assert service["Environment"] == f"HIEROGRAM_CACHE=/var/cache/{service['CacheDirectory']}"


def test_the_container_file_agrees_with_the_command_line_and_existing_files() -> None:
    [base] = instructions("ARG")
    version = re.fullmatch(r"BASE=\S+/python:(\d+)\.(\d+)-slim-bookworm@sha256:[0-9a-f]{64}", base)
    assert version
    # constraints.txt was made for this version.
    assert (int(version[1]), int(version[2])) == (3, 11)
    assert [image.split()[0] for image in instructions("FROM")] == ["$BASE", "$BASE"]
    [program] = json.loads(instructions("ENTRYPOINT")[0])
    [command] = json.loads(instructions("CMD")[-1])
    assert program in PROJECT["scripts"]
    assert command_options(command)
    assert instructions("EXPOSE") == [str(HttpConfiguration().port)]
    [check] = instructions("HEALTHCHECK")
    assert f"http://127.0.0.1:{HttpConfiguration().port}/healthz" in check
    for path in instructions("COPY"):
        if not path.startswith("--from"):
            assert (ROOT / path.split()[0]).exists()
    assert {"README.md", "LICENSE", "pyproject.toml"}.isdisjoint((ROOT / ".containerignore").read_text().split())


def test_systemd_unit_may_write_to_the_documented_folders() -> None:
    unit = UnitParser(strict=False, interpolation=None)
    unit.read(ROOT / "packaging/systemd/hierogram.service")
    writable = [path.lstrip("-") for path in unit["Service"]["ReadWritePaths"].split()]
    shown = "".join(
        block
        for page in ("daemon", "exports", "corpora")
        for block in re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(), re.DOTALL)
    )
    named = re.findall(r'^(?:folder|to) = "([^"]+)"', shown, re.MULTILINE)
    assert len(named) > 1
    assert set(named) <= set(writable)
    installed = (ROOT / "docs" / "daemon.md").read_text().split("## Install\n")[1].split("\n## ")[0]
    assert all(installed.count(path) > 1 for path in writable)


def test_no_page_or_daemon_module_installs_hierogram_from_a_package_index() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    pages += (ROOT / "daemon").rglob("*.py")
    assert len(pages) > 100
    assert [str(page) for page in pages if re.search(r"pip install '?hierogram\b", page.read_text())] == []


def test_the_installation_recipe_gives_each_folder_its_group_and_mode() -> None:
    installed = (ROOT / "docs" / "daemon.md").read_text().split("## Install\n")[1].split("\n## ")[0]
    [recipe] = [block for block in re.findall(r"```sh\n(.*?)```", installed, re.DOTALL) if "systemctl" in block]
    modes = re.findall(r"^install .*-m (\d+) .*?(\S+)$", recipe, re.MULTILINE)
    assert {path: mode for mode, path in modes} == {
        "/var/spool/hierogram": "2770", "/srv/grammars": "2750", "/etc/hierogram/hierogram.toml": "0640",
        "/etc/systemd/system/": "0644",
    }  # fmt: skip
    for group in ("hierogram-spool", "hierogram-exports"):
        assert f"groupadd --system {group}" in recipe
        assert f"-g {group}" in recipe


def test_the_container_has_the_extras_of_a_daemon() -> None:
    [extras] = re.findall(r"pip install .*'\.\[(.*)\]'", CONTAINER)
    assert {"postgres", "tune"} <= set(extras.split(",")) <= set(PROJECT["optional-dependencies"])


def constraints() -> dict[str, str]:
    return dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines())


def test_constraints_are_sorted_and_have_exact_versions() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9.!]+", line)] == []
    assert lines == sorted(lines, key=str.lower)
    assert "hierogram" not in constraints()


@pytest.mark.parametrize("extra", [None, "test", "lint", "tune"])
def test_constraints_satisfy_the_dependencies(extra: str | None) -> None:
    versions = {canonicalize_name(name): version for name, version in constraints().items()}
    for line in PROJECT["dependencies"] if extra is None else PROJECT["optional-dependencies"][extra]:
        needed = Requirement(line)
        assert versions[canonicalize_name(needed.name)] in needed.specifier, line


def test_constraints_include_indirect_dependencies() -> None:
    """All dependencies of the package and of its extra `tune`, direct or indirect, are constrained."""
    versions = {canonicalize_name(name) for name in constraints()}
    wanted = [Requirement(line) for line in PROJECT["dependencies"]]
    wanted += [Requirement(line) for line in PROJECT["optional-dependencies"]["tune"]]
    seen: set[str] = set()
    while wanted:
        one = wanted.pop()
        name = canonicalize_name(one.name)
        if str(one) in seen or (one.marker is not None and not one.marker.evaluate({"extra": ""})):
            continue
        seen.add(str(one))
        assert name in versions
        for line in distribution(name).requires or ():
            needed = Requirement(line)
            extras = ["", *one.extras]
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                needed.marker = None
                wanted.append(needed)
    assert len(seen) > 30


def test_the_container_and_the_recipe_use_the_constraints() -> None:
    for page in (CONTAINER, (ROOT / "docs" / "daemon.md").read_text()):
        assert re.search(r"pip install .*--constraint constraints\.txt '\.\[postgres,tune,webhooks\]'", page)
    ignored = (ROOT / ".containerignore").read_text().split()
    assert "constraints.txt" not in ignored


def test_compose_connects_the_daemon_to_postgres(monkeypatch: pytest.MonkeyPatch) -> None:
    services = yaml.safe_load((ROOT / "packaging" / "compose.yaml").read_text())["services"]
    daemon, store = services["daemon"], services["store"]
    for name, value in (container_environment() | daemon["environment"]).items():
        if name.startswith("HIEROGRAM_"):
            monkeypatch.setenv(name, re.sub(r"\$\{\w+(:\?[^}]*)?\}", "0123456789abcdef", value))
    configuration = load_configuration()
    url = parse_url(configuration.store)
    assert url.get_backend_name() == "postgresql"
    assert (url.username, url.database) == (store["environment"]["POSTGRES_USER"], store["environment"]["POSTGRES_DB"])
    assert url.host in services
    assert daemon["ports"] == [f"127.0.0.1:{configuration.http.port}:{configuration.http.port}"]
    assert (ROOT / "packaging" / daemon["build"]["context"] / daemon["build"]["dockerfile"]).is_file()
    assert daemon["volumes"] == [f"work:{instructions('VOLUME')[0]}"]
    assert int(daemon["stop_grace_period"].rstrip("s")) > configuration.daemon.grace_seconds


def test_the_container_environment_is_a_valid_configuration_once_a_token_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment = container_environment()
    for name, value in environment.items():
        if name.startswith("HIEROGRAM_"):
            monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="set token"):
        load_configuration()
    monkeypatch.setenv("HIEROGRAM_HTTP__TOKEN", "chosen by who starts it")
    configuration = load_configuration()
    assert configuration.store == environment["HIEROGRAM_STORE"]
    assert str(configuration.spool.folder) == environment["HIEROGRAM_SPOOL__FOLDER"]


def test_the_container_file_creates_the_folders_of_its_environment() -> None:
    environment = container_environment()
    made = " ".join(instructions("RUN"))
    assert environment["HIEROGRAM_SPOOL__FOLDER"] in made
    assert environment["HIEROGRAM_CACHE"] in made
    assert f"--home-dir {instructions('WORKDIR')[-1]}" in made
    assert instructions("VOLUME") == [instructions("WORKDIR")[-1]]


def test_error_for_a_short_token_does_not_contain_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIEROGRAM_HTTP__HOST", "0.0.0.0")
    monkeypatch.setenv("HIEROGRAM_HTTP__TOKEN", "short-secret")
    with pytest.raises(UsageError, match="at least 16") as raised:
        load_configuration()
    assert "short-secret" not in str(raised.value)


def test_the_container_file_compiles_the_kernels_between_setting_the_cache_folder_and_declaring_the_volume() -> None:
    environment = CONTAINER.index("HIEROGRAM_CACHE=")
    assert environment < CONTAINER.index(f"RUN python -m {warm_up.__name__}") < CONTAINER.index("VOLUME")
