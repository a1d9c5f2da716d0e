"""Round trips of texts through tokenizer and detokenizer, by script."""

from pathlib import Path

from typer.testing import CliRunner

from hierogram.tools.lab.raw_text import app


def test_a_folder_of_texts_gives_a_table_by_script(tmp_path: Path) -> None:
    (tmp_path / "index.tsv").write_text("code\tbcp47\nsaraiki\tskr\n")
    (tmp_path / "saraiki.txt").write_text("پانی ہے اور آگ وی ہے، تے گھر وی ہے ۔\n" * 60)
    (tmp_path / "am.txt").write_text("ሰላም፣ ፍቅር።\nውሃ ፣ እሳት።\n")
    (tmp_path / "und.txt").write_text("ng'ombe, ka'a o'na.\n")
    ran = CliRunner().invoke(app, ["round-trips", str(tmp_path)])
    assert ran.exit_code == 0, ran.output
    assert ran.output.splitlines()[2:] == [
        "| Arabic | 1 | 60 | 0.0 % | 0.0 % (saraiki) | 100.0 % | 100.0 % (saraiki) |",
        "| Ethiopic | 1 | 2 | 50.0 % | 50.0 % (am) | 0.0 % | 0.0 % (am) |",
        "| Latin | 1 | 1 | 100.0 % | 100.0 % (und) | 0.0 % | 0.0 % (und) |",
        "| all | 3 | 63 | 50.0 % | 0.0 % (saraiki) | 33.3 % | 0.0 % (am) |",
    ]
