"""A small grammar and language model as files, and resources for translators that use them."""

from dataclasses import replace
from pathlib import Path

from hierogram.tools.translation.fixed_words import Glossary
from hierogram.tools.translation.options import TranslateOptions
from hierogram.tools.translation.resources import TranslationResources, load_resources
from hierogram.tools.translation.translating import Translator

GRAMMAR = """\
[X] ||| la maison ||| the house ||| EGivenF=-0.1 FGivenE=-0.1 ||| 0-0 1-1
[X] ||| la ||| the ||| EGivenF=-0.3 FGivenE=-0.2 ||| 0-0
[X] ||| maison ||| house ||| EGivenF=-0.3 FGivenE=-0.2 ||| 0-0
[X] ||| maison ||| home ||| EGivenF=-0.6 FGivenE=-0.3 ||| 0-0
[X] ||| [X,1] blanche ||| white [X,1] ||| EGivenF=-0.2 FGivenE=-0.1 ||| 1-0
[X] ||| ne [X,1] pas ||| does not [X,1] ||| EGivenF=-0.2 FGivenE=-0.1 ||| 0-0 2-1
[X] ||| vient ||| come ||| EGivenF=-0.1 FGivenE=-0.1 ||| 0-0
[X] ||| elle ||| she ||| EGivenF=-0.1 FGivenE=-0.1 ||| 0-0
[X] ||| euh ||| ||| EGivenF=-0.1 FGivenE=-0.1
[X] ||| [X,1] ||| [X,1] very ||| EGivenF=-0.1
[X] ||| [X,1] [X,2] ||| [X,2] [X,1] ||| EGivenF=-2
"""

ARPA = """\\data\\
ngram 1=11
ngram 2=4

\\1-grams:
-2 <unk> 0
0 <s> -0.3
-1 </s> 0
-1 the -0.2
-1.2 house -0.1
-1.3 home -0.1
-1.3 white -0.1
-1.2 she -0.1
-1.2 does -0.1
-1.2 not -0.1
-1.2 come -0.1

\\2-grams:
-0.3 the house
-0.5 the home
-0.2 does not
-0.4 she does

\\end\\
"""


def grammar_file(folder: Path) -> Path:
    path = folder / "small.cdec"
    path.write_text(GRAMMAR)
    return path


def lm_file(folder: Path) -> Path:
    path = folder / "small.arpa"
    path.write_text(ARPA)
    return path


def resources(folder: Path, glossary: Glossary | None = None, *, with_lm: bool = True) -> TranslationResources:
    made = load_resources(TranslateOptions(lm=str(lm_file(folder)) if with_lm else None))
    return made if glossary is None else replace(made, glossary=glossary)


def small_translator(folder: Path, glossary: Glossary | None = None) -> Translator:
    made = resources(folder, glossary)
    return made.translator(made.grammar(str(grammar_file(folder))))
