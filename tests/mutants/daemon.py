"""Faults in exports, loops, workers and the web, and the tests that must notice them."""

from tests.mutants.fault import Fault

_PUBLICATION = "tests/daemon/exports/test_publication.py"
_DIFFERENCE = "tests/daemon/exports/test_difference.py"
_LINKS_OF_RULES = ("tests/daemon/exports/test_scratch.py", "-k", "most_frequent_form")
_FORMATS = "tests/daemon/exports/test_formats.py"
_EXPORTING = "tests/daemon/exports/test_exporting.py"
_FOLLOWING = "tests/tools/translation/test_following.py"
_FILTERS = "tests/daemon/exports/test_filters.py"
_SCHEDULE = "tests/daemon/exports/test_schedule.py"
_CRON = "tests/daemon/exports/test_cron.py"
_SPOOL = "tests/daemon/serving/test_spool.py"
_SUPERVISION = "tests/daemon/serving/test_supervision.py"
_WEBHOOKS = "tests/daemon/serving/test_webhooks.py"
_POOL = "tests/daemon/workers/test_pool.py"
_GUARD = "tests/daemon/web/test_guard.py"
_SERVER = "tests/daemon/web/test_server.py"
_PAGES = "tests/daemon/web/pages/test_pages.py"
_STREAMS = "tests/daemon/web/events/test_events.py"
_STEMS = "tests/daemon/learning/alignment/test_stems.py"
_ARRIVALS = "tests/daemon/learning/alignment/test_incremental.py"
_ROUNDS = "tests/daemon/learning/alignment/test_rounds.py"
_TEXT = "tests/tools/translation/test_text.py"
_CASING = "tests/tools/translation/test_casing.py"
_JOINING = "tests/daemon/text/test_joining.py"
_RUNNING_TEXT = "tests/daemon/text/test_running_text.py"
_TOKENIZATION = "tests/daemon/text/test_tokenization.py"
_COMPILING = "tests/tools/scores/test_compiling.py"

DAEMON_FAULTS = (
    # The aligner.
    Fault(
        "no chain uses stems",
        "daemon/learning/alignment/aligning.py",
        "task.unit(options.uses_stems(chain))",
        "task.unit(False)",
        (_STEMS, "-k", "of_three"),
    ),
    Fault(
        "a pair's own links stay in the stem counts used for its alignment",
        "daemon/learning/alignment/incremental.py",
        "[[combine(a, b) for a, b in zip(*both, strict=True)] for both in zip(first, second, strict=True)]",
        "[[combine(a, b) for a, b in zip(first[0], second[0], strict=True)], first[1]]",
        (_STEMS, "-k", "being_aligned"),
    ),
    Fault(
        "pairs aligned in a batch count as arrived",
        "daemon/learning/alignment/incremental.py",
        "_SWEEP_ON_ARRIVAL, _SWEEP_IN_BATCH = 1, 2",
        "_SWEEP_ON_ARRIVAL, _SWEEP_IN_BATCH = 1, 1",
        (_ARRIVALS, "-k", "growing"),
    ),
    Fault(
        "pairs are realigned while new pairs are being sampled",
        "daemon/learning/alignment/incremental.py",
        "if not stalest or stalest[0].sweep != _SWEEP_ON_ARRIVAL:",
        "if not stalest:",
        (_ARRIVALS, "-k", "pairs_in_burn_in"),
    ),
    Fault(
        "a word is also counted as a stem of the same name",
        "daemon/learning/stored_links.py",
        '_WORD, _STEM = "", " "',
        '_WORD, _STEM = "", ""',
        (_STEMS, "-k", "by_words"),
    ),
    Fault(
        "a word is its own stem",
        "alignment/bitext.py",
        "numbers[word[:STEM_LETTERS]]",
        "numbers[word]",
        (_STEMS, "-k", "by_words"),
    ),
    Fault(
        "a word without counts has the counts of another word",
        "daemon/learning/stored_links.py",
        "self._words[k].get(name, _UNCOUNTED)",
        "self._words[k].get(name, next(iter(self._words[k].values()), _UNCOUNTED))",
        (_STEMS, "-k", "found_by_name"),
    ),
    Fault(
        "counts of one direction are read as counts of the other direction",
        "daemon/learning/stored_links.py",
        "linked = pairs[1 - k], pairs[2 + k]",
        "linked = pairs[1 - k], pairs[3 - k]",
        (_STEMS, "-k", "by_words"),
    ),
    Fault(
        "a text is aligned with the counts of other texts of the request",
        "daemon/learning/stored_links.py",
        """            (source, target_numbers[target], forward, backward)
            for source, name in enumerate(names[0])
            for target, forward, backward in self._linked.get(name, ())
            if target in target_numbers
""",
        """            (source, target_numbers.get(target, 0), forward, backward)
            for source, name in enumerate(names[0])
            for target, forward, backward in self._linked.get(name, ())
""",
        (_STEMS, "-k", "found_by_name"),
    ),
    Fault(
        "a request reads the counts of words instead of stems",
        "storage/aligner/aligner.py",
        '" UNION ALL ".join(pairs), parameters',
        "pairs[0], parameters",
        ("tests/storage/aligner/test_alignments.py", "-k", "add_up"),
    ),
    # Tokenization and detokenization.
    Fault(
        "a number may be lost",
        "tools/translation/text_translator.py",
        "if not all(map(_select_by_numerals, parts)):",
        "if not parts:",
        (_TEXT, "-k", "lost_or_doubled or text_is_translated"),
    ),
    Fault(
        "tags of siblings may cross",
        "tools/translation/documents.py",
        "    best = max(runs, key=len, default=None)\n",
        "    best = list(chain(*runs))\n",
        (_TEXT, "-k", "nested or lost_or_doubled"),
    ),
    Fault(
        "a placeholder is translated",
        "tools/translation/text_translator.py",
        "yield _SourceUnit(word.token, word.token, text_span, kept_texts[text_span[0]], ((word.token,),))",
        "yield _SourceUnit(word.token, word.token, text_span)",
        (_TEXT, "-k", "placeholder or are_kept"),
    ),
    Fault(
        "a glossary is matched against the words of the grammar",
        "tools/translation/text_translator.py",
        "phrases.append(InputPhrase(words, (), tokens))",
        "phrases.append(InputPhrase(words))",
        (_TEXT, "-k", "glossary"),
    ),
    Fault(
        "HTML text is not escaped again",
        "tools/translation/text_translator.py",
        "yield DisplayedWord(separator, paragraph.escape(token_text(word)) if kept_text is None else kept_text)",
        "yield DisplayedWord(separator, token_text(word) if kept_text is None else kept_text)",
        (_TEXT, "-k", "html"),
    ),
    Fault(
        "a sentence keeps the case of the grammar at its start",
        "tools/translation/casing.py",
        "return self.target.capitalize(form) if begins or copied is _CopiedCase.CAPITAL else form",
        "return form",
        (_TEXT, "-k", "text_is_translated"),
    ),
    Fault(
        "text in a script without case is in capitals",
        "tools/translation/casing.py",
        "return len(long) > 1 and all(map(is_upper, letter_words))",
        "return all(map(is_upper, filter(first_cased, letter_words)))",
        (_CASING, "-k", "script_with_case"),
    ),
    Fault(
        "German nouns are treated as names",
        "tools/translation/oov_substitutes.py",
        "if noun and (not self.casing.nouns or",
        "if noun and (True or",
        ("tests/tools/translation/test_unknown_words.py", "-k", "german"),
    ),
    Fault(
        "a compound is split into more parts than needed",
        "daemon/text/segments.py",
        "            if parts:\n                break\n",
        "",
        ("tests/daemon/text/test_compounds.py", "-k", "fewest"),
    ),
    Fault(
        "a footnote's mark is part of the word before it",
        "tools/translation/documents.py",
        "if _has_no_words(pieces, k, after, partner, paragraph.text):",
        "if False:",
        (_TEXT, "-k", "html"),
    ),
    Fault(
        "a typographic apostrophe is a token",
        "daemon/text/tokenizer.py",
        r"""_APOSTROPHES = "'\u2018\u2019""",
        r"""_APOSTROPHES = "'\u2018""",
        (_JOINING, "-k", "survives_tokenization"),
    ),
    Fault(
        "straight quotation marks may open and close anywhere",
        "daemon/text/detokenizer.py",
        "early = 2 * k < len(self._tokens)",
        "early = False",
        (_JOINING, "-k", "survives_tokenization"),
    ),
    Fault(
        "equally many signs decide for tokens",
        "daemon/text/inspection.py",
        "return running >= self.detached",
        "return running > self.detached",
        (_RUNNING_TEXT,),
    ),
    Fault(
        "an input without signs is stored as tokens after another input has decided",
        "daemon/text/reading.py",
        '{"tokenize": None} if self._sets_tokenize else {}',
        "{}",
        (_TOKENIZATION, "-k", "sqlite"),
    ),
    Fault(
        "rejected lines decide whether a store tokenizes",
        "daemon/text/reading.py",
        "learned = self._learned if len(joined) else None",
        "learned = self._learned",
        (_TOKENIZATION, "-k", "sqlite"),
    ),
    Fault(
        "a sentence begins in lowercase",
        "daemon/text/languages.py",
        "if following.islower() and following != following.title():",
        "if False:",
        (_JOINING, "-k", "sentences"),
    ),
    # Exports.
    Fault(
        "an export is renamed before it is on the disk",
        "daemon/exports/publication.py",
        "        flush_to_disk(written)\n    for written, final in files:\n        written.replace(final)\n",
        "        written.exists()\n    for written, final in files:\n        written.replace(final)\n",
        (_PUBLICATION, "-k", "on_the_disk"),
    ),
    Fault(
        "discounts are subtracted twice",
        "daemon/exports/formats.py",
        "(uses - smoothing * seen +",
        "(uses - 2 * smoothing * seen +",
        (_FORMATS, "-k", "json_lines"),
    ),
    Fault(
        "the discounted mass is lost",
        "daemon/exports/formats.py",
        "+ smoothing * {condition}_seen * ({event}_seen / all_seen)",
        "+ 0 * {condition}_seen * ({event}_seen / all_seen)",
        (_FORMATS, "-k", "json_lines"),
    ),
    Fault(
        "rules that occur only in minimal derivations have no links",
        "daemon/exports/loading.py",
        "            links.append(rule_links(deltas, batch, minimal, all_pairs))\n"
        "            weights.append(np.full(len(links[-1].entries), ONE_MINIMAL_USE, np.int64))\n",
        "",
        (_EXPORTING, "-k", "translation_weights"),
    ),
    Fault(
        "short compositions that occur once are exported",
        "daemon/exports/loading.py",
        "len(string_split(source, ' ')) <= {MAX_SHORT_SOURCE}",
        "len(string_split(source, ' ')) <= 0",
        (_EXPORTING, "-k", "translation_weights or read_in_parts"),
    ),
    Fault(
        "compositions with an unexpected source side are exported",
        "daemon/exports/loading.py",
        'text.delete_rare(scratch, "composed", f"composed WHERE {once}")',
        "pass",
        (_EXPORTING, "-k", "translation_weights or read_in_parts"),
    ),
    Fault(
        "rules of minimal derivations with an unexpected source side are omitted",
        "daemon/exports/loading.py",
        'rare = f"minimal_uses = 0 AND uses < ',
        'rare = f"uses < ',
        (_EXPORTING, "-k", "translation_weights"),
    ),
    Fault(
        "frequent rules with an unexpected source side are omitted",
        "daemon/exports/loading.py",
        "minimal_uses = 0 AND uses < {_TWICE * ONE_USE}",
        "minimal_uses = 0",
        (_EXPORTING, "-k", "translation_weights"),
    ),
    Fault(
        "rules that are also compositions are omitted",
        "daemon/exports/loading.py",
        "loaded ANTI JOIN composed USING (source, target) WHERE {rare}",
        "loaded WHERE {rare}",
        (_EXPORTING, "-k", "translation_weights"),
    ),
    Fault(
        "only compositions of pairs read together count as seen twice",
        "daemon/exports/loading.py",
        "np.minimum(self._bucket_counts[buckets] + times, _TWICE)",
        "np.minimum(times, _TWICE)",
        (_EXPORTING, "-k", "read_in_parts"),
    ),
    Fault(
        "rules counted in the store have no uses in compositions",
        "daemon/exports/loading.py",
        "coalesce(loaded.uses, 0) + coalesce(composed.uses, 0) AS uses",
        "coalesce(loaded.uses, composed.uses) AS uses",
        (_EXPORTING, "-k", "translation_weights"),
    ),
    Fault(
        "compositions have no links",
        "daemon/exports/loading.py",
        "SELECT source, target, alignment, composed AS uses",
        "SELECT source, target, '' AS alignment, composed AS uses",
        (_EXPORTING, "-k", "translation_weights"),
    ),
    Fault(
        "uses in compositions do not count for the links",
        "daemon/exports/loading.py",
        "SELECT source, target, alignment, composed AS uses",
        "SELECT source, target, alignment, 0 AS uses",
        ("tests/daemon/exports/test_scratch.py", "-k", "uses_in_compositions"),
    ),
    Fault(
        "a rule has the links of its rarest form",
        "daemon/exports/loading.py",
        "PARTITION BY source, target ORDER BY sum(uses) DESC",
        "PARTITION BY source, target ORDER BY sum(uses)",
        _LINKS_OF_RULES,
    ),
    Fault(
        "uses of one form in several blocks are compared one by one",
        "daemon/exports/loading.py",
        "ORDER BY sum(uses) DESC, alignment",
        "ORDER BY max(uses) DESC, alignment",
        _LINKS_OF_RULES,
    ),
    Fault(
        "the links of unused forms count",
        "daemon/exports/loading.py",
        "uses FROM aligned_uses WHERE uses > 0{",
        "uses FROM aligned_uses{",
        _LINKS_OF_RULES,
    ),
    Fault(
        "the last of equally frequent rules is kept",
        "daemon/exports/filters.py",
        "ORDER BY uses DESC, target)",
        "ORDER BY uses DESC, target DESC)",
        (_FILTERS, "-k", "equally_frequent"),
    ),
    Fault(
        "one of two exports has no error",
        "daemon/exports/difference.py",
        "{float(variance_after)!r} * {after}",
        "0.0 * {after}",
        (_DIFFERENCE, "-k", "both_exports"),
    ),
    Fault(
        "errors have no group variance",
        "storage/records/uncertainty.py",
        "group = GROUP_VARIANCE * uses",
        "group = 0 * uses",
        ("tests/storage/events/test_events.py", "-k", "appear_change"),
    ),
    Fault(
        "a rule missing from an export counts as unused",
        "daemon/exports/difference.py",
        "rounding_step = ROUNDING_STEP / ONE_USE",
        "rounding_step = 0.0",
        (_DIFFERENCE, "-k", "quarter"),
    ),
    Fault(
        "new rules are discounted as if there were no others",
        "daemon/exports/exporting.py",
        "all_seen = max(min_all_seen, *scratch",
        "all_seen = max(*scratch",
        (_FORMATS, "-k", "like_the_whole_grammar"),
    ),
    Fault(
        "the baseline of log-probabilities is computed from evidence",
        "tools/scores/scoring.py",
        "log_probabilities = [score.log_probability for",
        "log_probabilities = [score.evidence for",
        ("tests/tools/scores/test_scores.py", "-k", "sqlite and baseline"),
    ),
    Fault(
        "the last pairs are drawn as examples more often",
        "tools/scores/learned_counts.py",
        "else int(random.integers(done))",
        "else int(random.integers(_MAX_EXAMPLES))",
        ("tests/tools/scores/test_scores.py", "-k", "examples_are_drawn"),
    ),
    Fault(
        "rules of new pairs wait for a full reload",
        "tools/translation/resources.py",
        "if self._store_grammar.grows and 0 < new <= _MAX_NEW_PAIRS:",
        "if False:",
        (_FOLLOWING, "-k", "older_reload"),
    ),
    Fault(
        "a reload forgets the rules of pairs added during it",
        "tools/translation/resources.py",
        "            self._add_rules(store_grammar)\n",
        "",
        (_FOLLOWING, "-k", "older_reload"),
    ),
    Fault(
        "rules of new pairs are scored without rules that share a target side",
        "daemon/exports/loading.py",
        'FROM aligned_uses WHERE uses > 0") for side in SIDE_COLUMNS)',
        'FROM aligned_uses WHERE uses > 0") for side in ("source",))',
        (_FOLLOWING, "-k", "added_at_once"),
    ),
    Fault(
        "rules already read are read again with new pairs",
        "daemon/exports/loading.py",
        "FROM loaded WHERE fresh = 1",
        "FROM loaded",
        (_FOLLOWING, "-k", "added_at_once"),
    ),
    Fault(
        "all sentences with any word are searched instead of sentences with the rarest word",
        "daemon/exports/filters.py",
        "for number in min(starts_by_run, key=len):",
        "for number in max(starts_by_run, key=len):",
        (_FILTERS, "-k", "rarest"),
    ),
    Fault(
        "the version to which `latest` points may expire",
        "daemon/exports/publication.py",
        "if path.name != latest and (",
        "if (",
        (_PUBLICATION, "-k", "versions_expire"),
    ),
    Fault(
        "the folder of a running export is deleted",
        "daemon/exports/publication.py",
        "    except BlockingIOError:\n        return False\n",
        "    except BlockingIOError:\n        return True\n",
        (_PUBLICATION, "-k", "leftovers"),
    ),
    Fault(
        "a job that became due while the daemon was stopped is not due after the start",
        "daemon/exports/schedule.py",
        "row.next_run > now.timestamp():",
        "abs(row.next_run - now.timestamp()) >= 2:",
        (_SCHEDULE, "-k", "sqlite and missed"),
    ),
    Fault(
        "an interrupted job waits for its next scheduled time",
        "daemon/exports/schedule.py",
        "store.set_next_run(row, due.timestamp())",
        "pass",
        (_SCHEDULE, "-k", "sqlite and interrupted"),
    ),
    Fault(
        "a run in the repeated hour happens twice",
        "daemon/exports/options.py",
        " if time.astimezone(UTC) > after",
        "",
        (_CRON, "-k", "repeated_hour"),
    ),
    Fault(
        "a job counts as unchanged after the grammar has changed",
        "daemon/exports/exporting.py",
        '        "grammar_position": store.grammar_position(),\n',
        "",
        (_SCHEDULE, "-k", "sqlite and without_a_change"),
    ),
    # Loops.
    Fault(
        "a missing heartbeat is never reported",
        "daemon/serving/supervision.py",
        "age <= timeout",
        "age >= 0",
        (_SUPERVISION, "-k", "stalled"),
    ),
    Fault(
        "a stalled loop does not end the daemon",
        "daemon/serving/supervision.py",
        "if beat.age > self._section.stall_seconds:",
        "if supervised.heartbeat.age < 0:",
        (_SUPERVISION, "-k", "stalled"),
    ),
    Fault(
        "earlier failures still count after a good round",
        "daemon/serving/supervision.py",
        "        self.progress()\n        self.failures = 0\n",
        "        self.progress()\n",
        (_SUPERVISION, "-k", "only_consecutive"),
    ),
    Fault(
        "an unavailable store ends the daemon after some attempts",
        "daemon/serving/supervision.py",
        "isinstance(error, RETRYABLE)",
        "isinstance(error, ())",
        (_SUPERVISION, "-k", "while_its_store_is_unavailable"),
    ),
    Fault(
        "an unreadable file is moved to done",
        "daemon/serving/spool.py",
        "            self._reject(spool_input, str(error))\n",
        "            move_input(spool_input)\n",
        (_SPOOL, "-k", "sqlite and moved_to_failed"),
    ),
    Fault(
        "a file still being written is ingested",
        "daemon/serving/spool.py",
        " or entry.name.endswith(PART)",
        "",
        (_SPOOL, "-k", "oldest_first"),
    ),
    Fault(
        "a webhook has no deadline",
        "daemon/serving/webhooks.py",
        "asyncio.timeout(section.timeout_seconds)",
        "asyncio.timeout(None)",
        (_WEBHOOKS, "-k", "keeps_sending_bytes and head"),
    ),
    Fault(
        "webhooks are signed without their timestamp",
        "daemon/serving/webhooks.py",
        'f"{event_id}.{timestamp}.".encode()',
        'f"{event_id}.".encode()',
        (_WEBHOOKS, "-k", "standard_webhooks"),
    ),
    Fault(
        "burned-in pairs wait while new ones arrive",
        "daemon/serving/sampling.py",
        "self._owed += seconds * (1 - share) / share",
        "self._owed += 0 * share",
        ("tests/daemon/serving/test_sampling.py", "-k", "also_sampled"),
    ),
    Fault(
        "a slow reading process is considered stalled",
        "storage/worker_process.py",
        "if self._unstarved_time() - last_progress > self._silent_seconds:",
        "if self._unstarved_time() - last_progress > 0:",
        ("tests/storage/test_worker_process.py", "-k", "stalled_work"),
    ),
    # Workers.
    Fault(
        "a worker that takes over keeps the changes of repeated rounds",
        "daemon/workers/worker.py",
        "        for change in reversed(changes):\n            self._merge(_negated(change))\n",
        "",
        (_POOL, "-k", "remaining_workers"),
    ),
    Fault(
        "a batch sees commits of other batches of its round",
        "daemon/learning/alignment/incremental.py",
        "return results if len(batches) == 1 else _spool_results(results)",
        "return results",
        (_ROUNDS, "-k", "a_round_is_committed_only"),
    ),
    Fault(
        "a round has more pairs than there are linked pairs",
        "daemon/learning/alignment/incremental.py",
        "if batches and last > linked - realign * last:",
        "if batches and last > linked + realign * last:",
        (_ROUNDS, "-k", "is_limited"),
    ),
    # The web.
    Fault(
        "any host is answered without a token",
        "daemon/web/protocol/access.py",
        "if not is_loopback(host):",
        "if not host:",
        (_GUARD, "-k", "sqlite and for_another_host"),
    ),
    Fault(
        "a prefix of the token is accepted",
        "daemon/web/protocol/access.py",
        'hmac.compare_digest(token.encode("utf-8", "replace"), self._token)',
        'self._token.startswith(token.encode("utf-8", "replace"))',
        (_GUARD, "-k", "sqlite and without_the_token_are_refused"),
    ),
    Fault(
        "an infrequent client may send unlimited bursts",
        "daemon/web/protocol/access.py",
        "min(self._burst, level + (now - since) * self._rate)",
        "level + (now - since) * self._rate",
        (_GUARD, "-k", "test_rates"),
    ),
    Fault(
        "streams are counted after they have started",
        "daemon/web/api/events.py",
        "        self.open_count += 1\n        try:\n            first = await self.page(kinds, after, 1)\n",
        "        try:\n            first = await self.page(kinds, after, 1)\n            self.open_count += 1\n",
        (_STREAMS, "-k", "concurrent_streams"),
    ),
    Fault(
        "a stream skips events beyond one batch",
        "daemon/web/api/events.py",
        "page.events[-1].id if len(page.events) >= _PAGE_SIZE else page.last",
        "page.last",
        (_STREAMS, "-k", "more_than_one_batch"),
    ),
    Fault(
        "a page of events continues after events that did not fit",
        "daemon/web/api/events.py",
        "page.events[-1].id if len(page.events) == limit else max(page.last, after or 0)",
        "max(page.last, after or 0)",
        (_STREAMS, "-k", "sqlite and consecutive"),
    ),
    Fault(
        "the deadline of a body restarts with each chunk",
        "daemon/web/server.py",
        "min(client_timeout, allowed_seconds - self._waited_seconds)",
        "client_timeout",
        (_SERVER, "-k", "drips_its_body"),
    ),
    Fault(
        "no descriptor is reserved for the store",
        "daemon/web/server.py",
        "_RESERVED_DESCRIPTORS = 256",
        "_RESERVED_DESCRIPTORS = 0",
        (_SERVER, "-k", "descriptors_are_kept"),
    ),
    Fault(
        "connections take descriptors reserved for the store",
        "daemon/web/server.py",
        "limit - min(_RESERVED_DESCRIPTORS, limit // 2) - 2 * _SPARE_CONNECTIONS",
        "limit",
        (_SERVER, "-k", "descriptors_are_kept"),
    ),
    Fault(
        "a body without a declared size is unlimited",
        "daemon/web/protocol/bodies.py",
        "            if size > max_bytes:\n",
        "            if declared and size > max_bytes:\n",
        ("tests/daemon/web/test_intake.py", "-k", "sqlite and oversized_bodies"),
    ),
    Fault(
        "an older correction is used",
        "storage/browsing/details.py",
        "pair_records(transaction.connection, in_range)[::-1]",
        "pair_records(transaction.connection, in_range)",
        ("tests/tools/integrations/test_libretranslate.py", "-k", "last_correction"),
    ),
    Fault(
        "pages of other sites may send requests without a key",
        "tools/integrations/libretranslate.py",
        "if is_cross_site(request):",
        "if False:",
        ("tests/tools/integrations/test_libretranslate.py", "-k", "pages_of_other_sites"),
    ),
    Fault(
        "any password opens the translation memory",
        "daemon/web/protocol/access.py",
        "if self.sessions.is_token(password):",
        "if password:",
        ("tests/tools/integrations/test_memory.py", "-k", "as_a_password"),
    ),
    Fault(
        "units removed from a translation memory stay in the corpus",
        "daemon/library/synchronizing.py",
        "        withdraw(obsolete)\n",
        "        withdraw(obsolete[:0])\n",
        ("tests/tools/integrations/test_exchange.py", "-k", "new_changed_or_removed"),
    ),
    Fault(
        "evidence repeats rules for covered words",
        "tools/evidence/budget.py",
        "        seen.update(best.target_words)\n",
        "",
        ("tests/tools/evidence/test_budget.py", "-k", "without_new_target_words"),
    ),
    Fault(
        "models add pairs without permission",
        "tools/integrations/mcp_server.py",
        "    if may_add:\n",
        "    if True:\n",
        ("tests/tools/integrations/mcp/test_tools.py", "-k", "only_if_allowed"),
    ),
    Fault(
        "a browser's session does not expire",
        "daemon/web/protocol/access.py",
        "> self._clock()",
        "> 0",
        (_PAGES, "-k", "cookie_expires"),
    ),
    Fault(
        "a form for one pair also withdraws another one",
        "daemon/web/protocol/access.py",
        """f"{action}\\n{cookie or ''}\"""",
        """f"{cookie or ''}\"""",
        (_PAGES, "-k", "sqlite and its_own_form"),
    ),
    Fault(
        "pages show texts without escaping",
        "daemon/web/pages/rendering.py",
        "autoescape=True",
        "autoescape=False",
        ("tests/daemon/web/pages/test_escaping.py", "-k", "sqlite and show_odd_tokens_as_text"),
    ),
    Fault(
        "a stopping daemon waits until score kernels are compiled",
        "tools/scores/loop.py",
        "            wait()",
        "            threading.Event().wait(1)",
        (_COMPILING, "-k", "in_time"),
    ),
    Fault(
        "the process that compiles score kernels continues without its daemon",
        "tools/scores/loop.py",
        "    threading.Thread(target=end_with_parent, daemon=True).start()",
        "    pass",
        (_COMPILING, "-k", "killed"),
    ),
)
