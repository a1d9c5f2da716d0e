"""Alter a corpus with manual links: replace words by unique words, or transliterate one side.

    python -m hierogram.tools.lab.altered_corpus gold-en-fr-hansards unique/gold-en-fr-hansards --unique 0.6
    python -m hierogram.tools.lab.altered_corpus gold-en-fr-hansards greek/gold-en-fr-hansards --side fr --letters greek

Words keep their positions, so the manual links remain valid.
"""

import random
import re
import shutil
import string
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.text.lines import write_lines

LETTERS = {
    "cyrillic": "ch ч,sh ш,ph ф,ou у,qu к,ce се,ci си,ge же,gi жи,a а,b б,c к,d д,e е,f ф,g г,h х,i и,j ж,k к,l л,m м,"
    "n н,o о,p п,q к,r р,s с,t т,u у,v в,w в,x кс,y и,z з",
    "greek": "ch τσ,ph φ,th θ,ou ου,qu κ,ce σε,ci σι,a α,b β,c κ,d δ,e ε,f φ,g γ,h χ,i ι,j ι,k κ,l λ,m μ,n ν,o ο,p π,"
    "q κ,r ρ,s σ,t τ,u ου,v β,w β,x ξ,y υ,z ζ",
}
"""Transliterations of Latin letters, with longer sequences first."""


def add_unique_words(lines: list[list[str]], share: float, rng: random.Random) -> None:
    """Replace random tokens in place by random letters until at least `share` of all tokens occur once."""
    positions = [(line, position) for line, words in enumerate(lines) for position in range(len(words))]
    count = Counter(word for words in lines for word in words)
    unique = sum(number == 1 for number in count.values())
    rng.shuffle(positions)
    for line, position in positions:
        if unique >= share * len(positions):
            return
        word = lines[line][position]
        if count[word] > 1:
            count[word] -= 1
            unique += 1 + (count[word] == 1)
            length = rng.randint(6, 10)
            lines[line][position] = "".join(rng.choice(string.ascii_lowercase) for _ in range(length))


def transliterate(text: str, script: str) -> str:
    """Transliterate a Latin text to a script of `LETTERS`, and drop accents. Other characters are kept."""
    table = dict(pair.split(" ") for pair in LETTERS[script].split(","))
    decomposed = unicodedata.normalize("NFD", text.replace("œ", "oe").replace("æ", "ae").replace("Œ", "OE"))
    plain = "".join(character for character in decomposed if not unicodedata.combining(character))

    def replacement(found: re.Match[str]) -> str:
        letters = table[found[0].lower()]
        return letters[0].upper() + letters[1:] if found[0][0].isupper() else letters

    return re.sub("|".join(table), replacement, plain, flags=re.IGNORECASE | re.ASCII)


def alter(
    folder: Annotated[Path, typer.Argument(help="Folder with corpus.XX for two languages, and gold.talp.")],
    output: Annotated[
        Path, typer.Argument(help="Folder to create. Name it like FOLDER, because names order the languages.")
    ],
    unique: Annotated[float, typer.Option(min=0, max=1, help="Replace tokens until this share occurs once.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the random words.")] = 1,
    letters: Annotated[
        str | None, typer.Option(help=f"Script of --side: {', '.join(LETTERS)}.", show_default="unchanged")
    ] = None,
    side: Annotated[str | None, typer.Option(help="Language of the side to transliterate, such as fr.")] = None,
) -> None:
    """Write an altered copy of a corpus with manual links. The output folder must not exist."""
    if (letters is None) != (side is None) or (letters is not None and letters not in LETTERS):
        raise InputError(f"--letters ({' or '.join(LETTERS)}) and --side must be given together")
    output.mkdir(parents=True)
    rng = random.Random(seed)
    for path in sorted(folder.glob("corpus.*")):
        lines = [line.split() for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
        add_unique_words(lines, unique, rng)
        texts = [" ".join(words) for words in lines]
        if letters is not None and path.suffix == f".{side}":
            texts = [transliterate(text, letters) for text in texts]
        write_lines(output / path.name, texts)
    shutil.copy(folder / "gold.talp", output / "gold.talp")


if __name__ == "__main__":
    typer.run(alter)
