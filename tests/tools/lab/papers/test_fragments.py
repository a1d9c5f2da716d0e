"""The command that lists fragments by label and counts their sizes."""

from pathlib import Path

from tests.tools.lab.programs import run_lab

from hierogram.daemon.text.treebanks.trees import read_tree
from hierogram.tools.lab.papers.fragments import Size, fragment_size, histograms, most_frequent

LINES = [
    "(NP (DT the) (NN)) ||| 17",
    "(NP (DT a) (NN dog)) ||| 3",
    "(NP (DT) (NN)) ||| 30",
    "(NP (NN dogs)) ||| 2",
    "(VP (VBZ is) (NP)) ||| 9",
    "(VP (VBZ sees) (NP (DT) (NN))) ||| 5",
    "(VP (VBZ) (NP)) ||| 5",
    "(PP (IN) (NP)) ||| 4",
    "(S (NP) (VP (VBZ) (NP (NP) (PP (IN of) (NP))))) ||| 1",
]


def test_sizes_count_the_parts_of_a_fragment() -> None:
    sizes = [fragment_size(read_tree(line.split(" ||| ")[0], frontiers=True)) for line in LINES]
    assert sizes[0] == Size(2, 3, 1, 1)
    assert sizes[2] == Size(1, 3, 0, 2)
    assert sizes[5] == Size(2, 5, 1, 2)
    assert sizes[8] == Size(5, 9, 1, 4)


def test_the_command_lists_fragments_and_counts_their_sizes(tmp_path: Path) -> None:
    (tmp_path / "fragments").write_text("".join(f"{line}\n" for line in LINES))
    figure = tmp_path / "f.png"
    output = run_lab("papers.fragments", tmp_path / "fragments", "--number", "2", "--figure", figure)
    assert figure.read_bytes().startswith(b"\x89PNG")
    tables = output.split("\n\n")
    rows = [[line.split("\t") for line in table.splitlines()] for table in tables]
    assert rows[0] == [["Table 2, NP", "uses"], ["(NP (DT) (NN))", "30.0"], ["(NP (DT the) (NN))", "17.0"]]
    assert [row[0][0] for row in rows[:5]] == [
        *(f"Table 2, {label}" for label in ("NP", "PP", "VP")),
        "Table 3, NP",
        "Table 3, VP",
    ]
    # Table 3 omits fragments with auxiliary verbs, such as `is`.
    assert [row[0] for row in rows[4][1:]] == ["(VP (VBZ sees) (NP (DT) (NN)))"]
    assert "3 fragments of one production, 6 fragments of several productions" in output
    heights = next(line for line in output.splitlines() if line.startswith("height")).split("\t")
    assert heights[1:] == ["0", "0", "5", "0", "0", "1", *["0"] * 4]


def test_ties_are_sorted_by_name_and_sizes_are_capped_at_nine() -> None:
    fragments = [(read_tree(line.split(" ||| ")[0], frontiers=True), 1.0) for line in LINES]
    [own] = most_frequent(fragments, ["VP"], 2).values()
    assert [str(one) for one, _ in own] == ["(VP (VBZ is) (NP))", "(VP (VBZ sees) (NP (DT) (NN)))"]
    deep = "(X " * 14 + "w" + ")" * 14
    assert histograms([(read_tree(deep, frontiers=True), 1.0)])["height"] == {9: 1}
    assert not any(histograms([]).values())
