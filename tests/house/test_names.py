"""A name means one thing: no two public classes of one part share theirs."""

import ast
from collections import defaultdict

import pytest
from tests.house.sources import ROOT, modules, part, tree


@pytest.mark.parametrize("folder", ["samplers", "storage", "daemon", "tools"])
def test_no_two_public_classes_of_a_part_have_one_name(folder: str) -> None:
    places = defaultdict(list)
    for path in modules():
        for node in tree(path).body if part(path) == folder else ():
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert len(places) > 20
    assert not {name: where for name, where in places.items() if len(where) > 1}
