"""sil-machine trains and queries a store with its own code."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from machine.corpora import (
    AlignedWordPair,
    DictionaryTextCorpus,
    MemoryText,
    ParallelTextCorpus,
    TextRow,
)
from machine.tokenization import LatinWordTokenizer
from machine.translation.transductive_word_alignment_model import TransductiveWordAlignmentModel

from hierogram.tools.integrations.machine.models import MachineModel

SOURCE = ["La maison est verte.", "La porte est verte.", "La maison", "Une porte", "Une maison est grande."] * 6
TARGET = ["The house is green.", "The door is green.", "The house", "A door", "A house is big."] * 6


def side(lines: list[str]) -> DictionaryTextCorpus:
    rows = [TextRow("text", n, [line] if line else []) for n, line in enumerate(lines, 1)]
    return DictionaryTextCorpus([MemoryText("text", rows)])


def corpus(source: list[str], target: list[str]) -> ParallelTextCorpus:
    tokenizer = LatinWordTokenizer()
    return side(source).align_rows(side(target)).tokenize(tokenizer, tokenizer)


@pytest.fixture
def model(tmp_path: Path) -> Iterator[MachineModel]:
    with MachineModel(f"sqlite:///{tmp_path / 's.db'}", threads=1) as made:
        yield made


def train(model: MachineModel, source: list[str], target: list[str]) -> int:
    with model.create_trainer(corpus(source, target)) as trainer:
        trainer.train()
        trainer.save()
        return trainer.stats.train_corpus_size


def test_it_aligns_training_pairs_and_new_pairs(model: MachineModel) -> None:
    assert train(model, [*SOURCE, ""], [*TARGET, "Empty"]) == len(SOURCE)
    assert isinstance(model, TransductiveWordAlignmentModel)
    assert model.training_alignment_count == len(SOURCE) + 1
    assert str(model.get_training_alignment(2)) == "0-0 1-1"
    assert str(model.get_training_alignment(len(SOURCE))) == ""
    assert str(model.align(["Une", "porte", "verte"], ["A", "green", "door"])) == "0-0 1-2 2-1"
    first, second = model.align_batch([(["La", "porte"], ["The", "door"]), ([], ["x"])])
    assert (str(first), second.row_count, second.column_count) == ("0-0 1-1", 0, 1)


def test_its_words_and_scores_match_the_links(model: MachineModel) -> None:
    train(model, SOURCE, TARGET)
    assert model.source_words.index("maison") > 0
    assert model.source_words.index(None) == model.source_words.index("unheard") == 0
    [(word, share), *_] = model.get_translations("Maison")
    assert (model.target_words[word], share > 0.9) == ("house", True)
    assert model.get_translation_score("maison", "house") == share
    assert model.get_translation_score(model.source_words.index("maison"), word) == share
    assert model.get_translation_score("unheard", "house") == 0
    assert model.get_translation_table(0.5)["porte"].keys() == {"door"}


def test_sil_machine_writes_alignments_with_it(model: MachineModel) -> None:
    train(model, SOURCE, TARGET)
    rows = list(corpus(SOURCE[:2], TARGET[:2]).get_rows())
    assert model.get_alignment_string(rows[0], include_scores=False).startswith("0-0 1-1")
    pairs = AlignedWordPair.from_string(model.get_alignment_string(rows[0]))
    assert all(pair.translation_score > 0.5 for pair in pairs)
    assert "NULL" in model.get_giza_format_string(rows[0])
    best = model.get_best_aligned_word_pairs(rows[1].source_segment, rows[1].target_segment)
    assert {(pair.source_index, pair.target_index) for pair in best} >= {(0, 0), (1, 1)}
    matrix = model.align_parallel_text_row(rows[0])
    assert model.get_avg_translation_score(rows[0].source_segment, rows[0].target_segment, matrix) > 0.5


def test_a_later_draft_keeps_unchanged_pairs(model: MachineModel) -> None:
    train(model, SOURCE, TARGET)
    before = {pair.external_id: pair.id for pair in model.stored()}
    draft = [*TARGET[:-1], "A house is large."]
    assert train(model, [*SOURCE, "Une grande porte"], [*draft, "A large door"]) == len(SOURCE) + 1
    after = {pair.external_id: pair.id for pair in model.stored()}
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {f"text:{len(SOURCE)}"}
    assert after.keys() - before.keys() == {f"text:{len(SOURCE) + 1}"}
    assert str(model.get_training_alignment(len(SOURCE))) == "0-0 1-1 2-2"


def test_a_reopened_store_is_a_model(model: MachineModel) -> None:
    train(model, SOURCE, TARGET)
    with MachineModel(model.store.store.engine.url.render_as_string()) as again:
        assert again.training_alignment_count == len(SOURCE)
        assert str(again.get_training_alignment(2)) == "0-0 1-1"
        assert str(again.align(["La", "porte"], ["The", "door"])) == "0-0 1-1"
