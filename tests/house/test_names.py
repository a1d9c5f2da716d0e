"""No two public classes of the package have the same name."""

import ast
from collections import defaultdict

from tests.house.sources import ROOT, modules, tree


def test_public_classes_have_unique_names() -> None:
    locations = defaultdict(list)
    for path in modules():
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                locations[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert len(locations) > 200
    assert not {name: lines for name, lines in locations.items() if len(lines) > 1}
