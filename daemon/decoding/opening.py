"""Translators from what a command or a configuration names: a grammar, weights, a language model, a glossary."""

from dataclasses import dataclass, field

from hierogram.daemon.corpora.texts import AS_IT_IS, TextPipeline, pipeline_of, two_languages
from hierogram.daemon.decoding.fixed_words import Glossary, read_glossary
from hierogram.daemon.decoding.grammars import TranslationGrammar, open_grammar
from hierogram.daemon.decoding.requests import TranslateOptions
from hierogram.daemon.decoding.stored import StoredGrammar, stored_grammar
from hierogram.daemon.decoding.translating import Translator
from hierogram.daemon.decoding.weights import DEFAULT_WEIGHTS, read_weights, unused_weights
from hierogram.daemon.language_models.arpa import NamedModel
from hierogram.daemon.language_models.files import open_language_model
from hierogram.daemon.progress import progress
from hierogram.storage.store import Store


@dataclass(frozen=True)
class Equipment:
    """All but the grammar, read once: options, weights, language model, glossary."""

    options: TranslateOptions
    weights: dict[str, float]
    model: NamedModel | None
    glossary: Glossary
    _glossaries: dict[TextPipeline, Glossary] = field(default_factory=dict, repr=False)

    def texts(self, grammar: TranslationGrammar) -> TextPipeline:
        """What is done to sentences for a grammar: what its store does, or what the options say.

        Raises `UsageError` where the options name other languages than those of the grammar's store.
        """
        options = self.options
        if options.tokenized:
            return AS_IT_IS
        if options.tokenize is None:
            return grammar.texts
        return pipeline_of(grammar.texts.as_plain(), tokenize=two_languages(options.tokenize, "--tokenize"))

    def translator(self, grammar: TranslationGrammar, weights: dict[str, float] | None = None) -> Translator:
        """A translator with a grammar, under other weights if there are any."""
        options, texts = self.options, self.texts(grammar)
        if texts not in self._glossaries:
            # Made once, as tuning makes a translator in each round.
            self._glossaries[texts] = self.glossary.through(texts)
        return Translator(
            grammar,
            self.weights if weights is None else weights,
            self.model,
            span=options.span,
            pops=options.pops,
            max_words=options.max_words,
            glossary=self._glossaries[texts],
            texts=texts,
        )

    def grammar(self, path: str) -> TranslationGrammar:
        """The grammar of a file."""
        with progress("read the grammar", "rules") as shown:
            return open_grammar(path, self.options.max_scope, shown, self.options.format)

    def of_store(self, store: Store) -> StoredGrammar:
        """The grammar of a store as it is now."""
        with progress("read the grammar", "rules") as shown:
            return stored_grammar(store, self.options.of_store(), self.options.max_scope, shown)

    def unused(self, grammar: TranslationGrammar) -> list[str]:
        """Weights of the file that belong to no feature."""
        return [] if self.options.weights is None else unused_weights(grammar.features, self.weights)


def equip(options: TranslateOptions) -> Equipment:
    """What the options name, read; raises `InputError`."""
    weights = dict(DEFAULT_WEIGHTS) if options.weights is None else read_weights(options.weights)
    glossary = Glossary() if options.glossary is None else read_glossary(options.glossary)
    model = None
    if options.lm is not None:
        with progress("read the language model", "n-grams") as shown:
            model = open_language_model(options.lm, shown)
    return Equipment(options, weights, model, glossary)
