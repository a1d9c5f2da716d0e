"""No two public classes of the package have the same name."""

import ast
from collections import defaultdict

from tests.house.sources import ROOT, modules, tree


def test_public_classes_have_unique_names() -> None:
    places = defaultdict(list)
    for path in modules():
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert len(places) > 200
    assert not {name: where for name, where in places.items() if len(where) > 1}
