"""Each fault, inserted into a copy of its part, must make its tests fail.

`pytest -m mutants -n 2` takes hours, because each fault in the samplers recompiles kernels.
"""

import ast
import builtins
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.mutants.fault import Change, Fault
from tests.mutants.faults import FAULTS

ROOT = Path(__file__).parents[2]
SAMPLERS = "samplers"
PARTS = ("daemon", "migrations", "storage", "tools")
_WORD = re.compile(r"\b(?!(?:and|or|not|sqlite|postgres)\b)[a-z_]{3,}\b(?!-)")
"""Word of a selection that is part of a test's name. Parameters with hyphens, such as `bhmm-f`, are not checked."""
TESTS_FAILED = 1
"""Exit code of pytest if tests ran and failed."""


def link_checkout(folder: Path) -> Path:
    """Create a checkout of symbolic links to the parts. Returns the folder for PYTHONPATH."""
    package = folder / "imports" / "hierogram"
    package.mkdir(parents=True)
    # Without `__init__.py` the installed package would be imported, even if this folder is first on the path.
    (package / "__init__.py").symlink_to(ROOT / ".imports" / "hierogram" / "__init__.py")
    for part in (SAMPLERS, *PARTS):
        (package / part).symlink_to(ROOT / part)
    return package.parent


def find_part(module: str) -> str:
    """Return the part that contains a module: the first folder of its name, or the samplers."""
    first = module.partition("/")[0]
    return first if first in PARTS else SAMPLERS


def locate_module(package: Path, module: str) -> Path:
    """Return the path of a module, whose name begins with its part or is relative to samplers/."""
    return package / module if find_part(module) in PARTS else package / SAMPLERS / module


def change(imports: Path, module: str, before: str, after: str) -> None:
    """Replace text, which must occur once, in a module. The first change of a part replaces its link by a copy."""
    package = imports / "hierogram"
    part = find_part(module)
    if (package / part).is_symlink():
        (package / part).unlink()
        shutil.copytree(ROOT / part, package / part, ignore=shutil.ignore_patterns("__pycache__"))
    path = locate_module(package, module)
    text = path.read_text()
    assert text.count(before) == 1, f"{module}: {before!r} occurs {text.count(before)} times"
    path.write_text(text.replace(before, after))


def run(imports: Path, tests: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run tests on the linked checkout. Changed samplers use a separate kernel cache."""
    environment = {**os.environ, "PYTHONPATH": str(imports)}
    if not (imports / "hierogram" / SAMPLERS).is_symlink():
        environment["HIEROGRAM_CACHE"] = str(imports.parent / "cache")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.mutants
@pytest.mark.parametrize("fault", FAULTS, ids=[f"{fault.module}: {fault.name}" for fault in FAULTS])
def test_a_fault_is_detected(fault: Fault, tmp_path: Path) -> None:
    imports = link_checkout(tmp_path)
    for extreme in fault.extremes:
        change(imports, *extreme)
    change(imports, fault.module, fault.original, fault.mutated)
    ran = run(imports, fault.tests)
    assert ran.returncode == TESTS_FAILED, ran.stdout + ran.stderr


@pytest.mark.mutants
@pytest.mark.parametrize(
    ("tests", "extremes"),
    sorted({(fault.tests, fault.extremes) for fault in FAULTS}),
    ids=lambda value: " ".join(value) if all(isinstance(part, str) for part in value) else f"{len(value)} extremes",
)
def test_the_same_tests_pass_without_the_fault(
    tests: tuple[str, ...], extremes: tuple[Change, ...], tmp_path: Path
) -> None:
    imports = link_checkout(tmp_path)
    for extreme in extremes:
        change(imports, *extreme)
    ran = run(imports, tests)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_packages_of_the_linked_checkout_are_imported(tmp_path: Path) -> None:
    script = "import hierogram.samplers as samplers; print(samplers.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(link_checkout(tmp_path))}
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert str(tmp_path) in ran.stdout


def test_the_text_of_every_fault_occurs_once_in_its_module() -> None:
    """If the text of a fault no longer occurred, the campaign would not test it."""
    for fault in FAULTS:
        number = locate_module(ROOT, fault.module).read_text().count(fault.original)
        assert number == 1, f"{fault.name}: {fault.module} has {fault.original!r} {number} times"
        assert fault.original != fault.mutated
        for extreme in fault.extremes:
            assert locate_module(ROOT, extreme.module).read_text().count(extreme.before) == 1, fault.name


def test_every_mutated_module_is_valid() -> None:
    """If a mutated module had a syntax error or an unknown name, every test would fail, and the fault tests nothing."""
    for fault in FAULTS:
        original = locate_module(ROOT, fault.module).read_text()
        known = {*re.findall(r"\w+", original), *dir(builtins)}
        syntax = ast.parse(original.replace(fault.original, fault.mutated))
        names = [node for node in ast.walk(syntax) if isinstance(node, ast.Name)]
        unknown = {name.id for name in names} - {name.id for name in names if isinstance(name.ctx, ast.Store)} - known
        assert not unknown, f"{fault.name}: {fault.module} does not contain {unknown}"


def test_every_selected_test_exists() -> None:
    """If a selected test was renamed, pytest would run no test, and the campaign would not test the fault."""
    for fault in FAULTS:
        paths = [ROOT / name.partition("::")[0] for name in fault.tests if name.startswith("tests/")]
        files = [file for path in paths for file in ([path] if path.suffix else sorted(path.rglob("*.py")))]
        text = "\n".join(file.read_text() for file in files).lower()
        selection = fault.tests[fault.tests.index("-k") + 1] if "-k" in fault.tests else ""
        names = " ".join(re.findall(r"def (test_\w+)", text))
        for word in _WORD.findall(selection.lower()):
            # Words without an underscore may be parameters of a test instead of a part of its name.
            exists = word in (names if "_" in word else text)
            assert exists, f"{fault.name}: no test of {', '.join(fault.tests)} has {word!r}"
