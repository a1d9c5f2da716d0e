"""Raw sentences and translations of a small artificial language, learnable in seconds."""

import random
from itertools import product
from pathlib import Path

WHO = [
    ("L'homme", "The man"), ("La femme", "The woman"), ("Mon ami", "My friend"), ("Marie", "Mary"),
    ("L'enfant", "The child"), ("Le chien de Marie", "Mary's dog"), ("Ma mère", "My mother"),
]  # fmt: skip
DOES = [
    ("mange", "eats"), ("voit", "sees"), ("n'aime pas", "doesn't like"), ("cherche", "looks for"), ("a", "has"),
    ("ne voit pas", "doesn't see"), ("veut", "wants"),
]  # fmt: skip
WHAT = [
    ("l'eau", "the water"), ("une maison blanche", "a white house"), ("la petite porte", "the small door"),
    ("du pain", "some bread"), ("l'oiseau noir", "the black bird"), ("trois fleurs", "three flowers"),
    ("une fleur", "a flower"), ("la maison", "the house"), ("l'ami de Paul", "Paul's friend"),
    ("12 pommes", "12 apples"),
]  # fmt: skip
FORMS = [
    ("{0}.", "{0}."), ("Aujourd'hui, {1}.", "Today, {1}."), ("{0} !", "{0}!"),
    ("« {0} », dit-elle.", "“{0},” she says."),
    ("Paul dit que {1}.", "Paul says that {1}."),
]  # fmt: skip


def mid_sentence(text: str) -> str:
    return text if text.startswith(("Marie", "Mary")) else text[0].lower() + text[1:]


def sentences() -> list[tuple[str, str]]:
    """Return every sentence of the language with its translation, in random order."""
    found = []
    for parts in product(WHO, DOES, WHAT):
        source, target = (" ".join(part[side] for part in parts) for side in (0, 1))
        for french, english in FORMS:
            found.append((french.format(source, mid_sentence(source)), english.format(target, mid_sentence(target))))
    random.Random(3).shuffle(found)
    return found


def write_files(folder: Path, train: int, held_out: int) -> None:
    """Write the training, development and test files of both languages."""
    pairs = sentences()
    parts = {"train": pairs[:train], "dev": pairs[train:][:held_out], "test": pairs[train + held_out :][:held_out]}
    for part, chosen in parts.items():
        for side, language in enumerate(("fr", "en")):
            (folder / f"{part}.{language}").write_text("".join(pair[side] + "\n" for pair in chosen))
