"""Faults in the store and its transactions, and the tests that must notice them."""

from tests.mutants.fault import Fault

_COMMITS = "tests/storage/grammar/test_commit.py"
_LEASES = "tests/storage/database/test_leases.py"
_INGEST = "tests/storage/pairs/test_ingest.py"
_IDENTITIES = "tests/storage/pairs/test_columns.py"
_WITHDRAWALS = "tests/storage/pairs/test_withdrawals.py"
_EVENTS = "tests/storage/events/test_events.py"
_KEY_RUNS = "tests/storage/grammar/test_key_runs.py"
_QUERIES = "tests/storage/grammar/test_queries.py"
_VERIFYING = "tests/daemon/learning/test_verifying.py"
_EVERY_KIND = "tests/daemon/learning/test_every_kind.py"

STORE_FAULTS = (
    # Commits of counts and derivations.
    Fault(
        "a delta is applied twice",
        "storage/grammar/changes.py",
        "after[name] += getattr(changed.deltas, name)",
        "after[name] += 2 * getattr(changed.deltas, name)",
        (_COMMITS, "-k", "sqlite and add_up"),
    ),
    Fault(
        "only the last change of a rule in a commit counts",
        "storage/records/columns.py",
        "np.add.at(column, groups, getattr(self, name))",
        "column[groups] = getattr(self, name)",
        (_COMMITS, "-k", "sqlite and add_up"),
    ),
    Fault(
        "a rule is deleted although minimal derivations use it",
        "storage/grammar/changes.py",
        '(after["count"] > 0) | (after["expected_uses"] > 0) | (after["minimal_uses"] > 0)',
        '(after["count"] > 0) | (after["expected_uses"] > 0)',
        (_COMMITS, "-k", "sqlite and only_minimal_uses"),
    ),
    Fault(
        "a minimal derivation is counted again when its pair is resampled",
        "daemon/learning/kinds/pairs.py",
        "gained, lost = np.setdiff1d(derived_after, derived_before), ",
        "gained, lost = derived_after, ",
        (_EVERY_KIND, "-k", "sqlite and recount"),
    ),
    Fault(
        "a minimal derivation stays counted when its pair is withdrawn",
        "daemon/learning/kinds/pairs.py",
        "np.setdiff1d(derived_before, derived_after)",
        "np.setdiff1d(derived_before, derived_before)",
        (_EVERY_KIND, "-k", "sqlite and remaining_pairs"),
    ),
    Fault(
        "expected uses may become negative",
        "storage/grammar/changes.py",
        "below |= after[name] < 0",
        'below |= (after[name] < 0) & (name != "expected_uses")',
        (_COMMITS, "-k", "sqlite and invalid_change"),
    ),
    Fault(
        "a key may belong to two rules whose sources agree",
        "storage/grammar/changes.py",
        "if named.texts[0][row] != sources[index] or named.texts[1][row] != targets[index]:",
        "if named.texts[0][row] != sources[index]:",
        (_COMMITS, "-k", "sqlite and invalid_change"),
    ),
    Fault(
        "a pair sampled by another process is overwritten",
        "storage/grammar/changes.py",
        "expected_sweep <> sentence_pairs.sweep",
        "expected_sweep > sentence_pairs.sweep",
        (_COMMITS, "-k", "sqlite and two_samplers"),
    ),
    Fault(
        "a settling pair also counts as sampled",
        "storage/grammar/changes.py",
        "state.add(state, -number)",
        "state.add(state, 0)",
        (_COMMITS, "-k", "sqlite and replaces_the_previous_one"),
    ),
    Fault(
        "committed changes are committed again",
        "daemon/learning/learner.py",
        "        self.committed_state = self.state.copy()\n",
        "",
        ("tests/daemon/serving/test_sampling.py", "-k", "short_turns"),
    ),
    Fault(
        "expected uses are stored without their scale",
        "daemon/learning/kinds/pairs.py",
        'entry["expected_uses"][chosen] / ONE_USE',
        'entry["expected_uses"][chosen] / 1.0',
        (_EVERY_KIND, "-k", "sqlite and recount"),
    ),
    Fault(
        "the progress of a run is not saved with its sweeps",
        "storage/grammar/rules.py",
        "            if run is not None:\n",
        "            if run is None:\n",
        (_COMMITS, "-k", "sqlite and with_its_sweeps"),
    ),
    Fault(
        "a deletion of an entry in an older run is dropped too early",
        "storage/grammar/key_index.py",
        "kept_newer[removed if is_oldest else removed[indices[is_same_rule]]] = False",
        "kept_newer[removed] = False",
        (_KEY_RUNS, "-k", "merging"),
    ),
    Fault(
        "the last slice of spilled rows is read in no part",
        "storage/checks/spill.py",
        "    yield first, SLICES",
        "    yield first, SLICES - 1",
        ("tests/storage/checks/test_spill.py",),
    ),
    Fault(
        "the words of the first rule of a range of ids are not compared",
        "storage/checks/integrity.py",
        "stored_rules(connection, first - 1,",
        "stored_rules(connection, first,",
        (_VERIFYING, "-k", "sqlite and words"),
    ),
    Fault(
        "the counts of a rule's first part are used as its total",
        "daemon/learning/verifying.py",
        "counted.sum_by_group(first_rows)",
        "counted",
        (_VERIFYING, "-k", "sqlite and nothing"),
    ),
    Fault(
        "rules with the same count as the last one of a page are on no page",
        "storage/grammar/rules.py",
        "(r.{uses} = :last_uses AND",
        "(r.{uses} < :last_uses AND",
        (_QUERIES, "-k", "sqlite and consecutive_pages"),
    ),
    Fault(
        "pairs sampled in the last transaction are not indexed",
        "storage/grammar/rules.py",
        "position <= :position",
        "position < :position",
        (_COMMITS, "-k", "sqlite and is_not_indexed"),
    ),
    # Leases.
    Fault(
        "a commit does not check the lease",
        "storage/database/leases.py",
        "                if lease is None or lease.token != self._lease:\n",
        "                if lease is None:\n",
        (_LEASES, "-k", "sqlite and (learns_who_holds or an_expired_lease)"),
    ),
    Fault(
        "a lease never expires",
        "storage/database/leases.py",
        "lease.expires_at > database_time(connection) and ",
        "",
        (_LEASES, "-k", "sqlite and an_expired_lease"),
    ),
    Fault(
        "the lease of a dead process holds until it expires",
        "storage/database/leases.py",
        " and not has_ended(lease.process)",
        "",
        (_LEASES, "-k", "sqlite and has_ended"),
    ),
    # Adding pairs.
    Fault(
        "the identity of a pair omits its target side",
        "storage/pairs/identities.py",
        "{len(source)}:{source}{len(target)}:{target}{len(alignment)}:",
        "{len(source)}:{source}{len(alignment)}:",
        (_IDENTITIES, "-k", "identities"),
    ),
    Fault(
        "identities are the same in all corpora",
        "storage/pairs/identities.py",
        'blake2b(f"{len(corpus)}:{corpus}".encode(), digest_size=IDENTITY_BYTES)',
        "blake2b(digest_size=IDENTITY_BYTES)",
        (_INGEST, "-k", "sqlite and two_corpora"),
    ),
    Fault(
        "the unstored part of an earlier run of rejected lines is lost",
        "storage/pairs/ingest.py",
        "    return remainders, saved\n",
        "    return [], saved\n",
        (_INGEST, "-k", "sqlite and one_reason"),
    ),
    Fault(
        "rejected lines are stored again when their input is repeated",
        "storage/pairs/ingest.py",
        "        line = offered.pop(digest)\n",
        "        line = offered[digest]\n",
        (_INGEST, "-k", "sqlite and kept_once"),
    ),
    Fault(
        "a request recorded by another process is overwritten",
        "storage/pairs/ingest.py",
        " & (http_requests.c.lines == recorded_lines)",
        "",
        (_INGEST, "-k", "sqlite and continues_from"),
    ),
    # Removing pairs.
    Fault(
        "a withdrawn pair's rules stay counted",
        "daemon/learning/learner.py",
        "batch.removal_deltas() if batch else None",
        "None",
        (_EVERY_KIND, "-k", "sqlite and remaining_pairs"),
    ),
    Fault(
        "a withdrawn pair's words stay counted",
        "storage/pairs/pairs.py",
        "count_pair_words(grammar_kind, sources, targets), -1)",
        "count_pair_words(grammar_kind, sources, targets), 0)",
        (_WITHDRAWALS, "-k", "sqlite and deleted_with"),
    ),
    Fault(
        "a pair sampled since it was read is withdrawn with older counts",
        "storage/pairs/pairs.py",
        "if sweeps.get(row.id) != row.sweep:",
        "if row.id not in sweeps:",
        (_WITHDRAWALS, "-k", "sqlite and failed_withdrawal"),
    ),
    # Events.
    Fault(
        "one event too many is kept",
        "storage/events/feed.py",
        "events.c.id <= last - number_kept",
        "events.c.id < last - number_kept",
        (_EVENTS, "-k", "sqlite and late_reader"),
    ),
    Fault(
        "a webhook gets only the first hundred of many events",
        "storage/events/feed.py",
        "page.events[-1].id if len(page.events) == _EVENTS_AT_ONCE else page.last",
        "page.last",
        (_EVENTS, "-k", "sqlite and many_deliveries"),
    ),
    Fault(
        "a delivery is not due at its exact second",
        "storage/events/feed.py",
        "table.retry_at <= moment",
        "table.retry_at < moment",
        (_EVENTS, "-k", "sqlite and (test_deliveries or finished_deliveries)"),
    ),
    Fault(
        "changes are compared with an old value instead of the last reported one",
        "storage/grammar/changes.py",
        "removed | updated, added | updated",
        "removed, added",
        (_EVENTS, "-k", "sqlite and replayed_events"),
    ),
)
