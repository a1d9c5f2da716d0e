"""Nothing is larger than a person takes in at a glance: folders, modules, parameters."""

from collections import Counter
from pathlib import Path

from tests.house.sources import ROOT, functions, modules

MODULES = 14
LINES = 400
PARAMETERS = 8


def test_folders() -> None:
    tests = (ROOT / "tests").rglob("*.py")
    numbers = Counter(path.parent for path in (*modules(), *tests) if path.name != "__init__.py")
    large = {str(folder.relative_to(ROOT)): number for folder, number in numbers.items() if number > MODULES}
    assert not large, f"folders of more than {MODULES} modules: {large}"


def test_modules() -> None:
    lengths = {path.relative_to(ROOT): len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}
    long = {str(path): length for path, length in lengths.items() if length > LINES}
    assert not long, f"modules of more than {LINES} lines: {long}"


def test_parameters() -> None:
    many = [
        f"{function.path.relative_to(ROOT)}:{function.line}: {function.name} has {function.parameters}"
        for path in modules()
        for function in functions(path)
        if function.parameters > PARAMETERS
    ]
    assert not many, "\n".join([f"functions of more than {PARAMETERS} parameters:", *many])


def test_parameters_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "example.py"
    path.write_text("class A:\n    def f(self, a, /, b, *c, d, e=1, **g): ...\nasync def h(a): ...\n")
    assert [(function.name, function.parameters) for function in functions(path)] == [("h", 1), ("f", 6)]
