"""The list of faults: where each is put, and the tests that must notice it."""

from tests.mutants.charts import CHART_FAULTS
from tests.mutants.fault import Change, Fault

SMALL_SCALE = (
    Change("counts/products.py", "SCALE = 2.0**256", "SCALE = 2.0**24"),
    Change("counts/products.py", "LOG_SCALE = 256 * math.log(2.0)", "LOG_SCALE = 24 * math.log(2.0)"),
)
"""Products of a few factors leave the range of one value."""

TREES = "tests/samplers/trees/test_tree_sampler.py"
DRAWS = "tests/samplers/synchronous/test_draw_for_draw.py"
TYPES = "tests/samplers/synchronous/test_type_moves.py"
MODELS = "tests/samplers/counts/test_models.py"
PRODUCTS = "tests/samplers/counts/test_products.py"
SCHEDULES = "tests/samplers/grammar/test_schedules.py"
PARSING = "tests/daemon/treebanks/test_parsing.py"
ALIGNMENT = "tests/samplers/alignment/test_kernels.py"
KNOWN_LINKS = ("tests/samplers/alignment/test_evidence.py", "-k", "twin_does")

LANGUAGE_MODELS = "tests/samplers/language_models/test_model.py"
ESTIMATION = ("tests/daemon/language_models/test_estimation.py", "-k", "definition")

_ITG = "tests/samplers/itg/test_draw_for_draw.py"
_ITG_SLICE = (_ITG, "-k", "twins_do and slice")
_OWN_COUNTED = (
    "    count_derivation(batch, pair, scratch.nodes, length, state.counts, 1)\n"
    "    weigh_rules(batch, pair, state.base, state.counts, scratch.weights)\n"
    "    count_derivation(batch, pair, scratch.nodes, length, state.counts, -1)\n"
    "    return length"
)
_ITG_TABLES = ("tests/samplers/itg/test_long_run.py", "-k", "half_a_draw")
CREDITS = "tests/samplers/synchronous/test_expected_uses.py"
AVERAGES = "tests/samplers/forests/test_averages.py"

_DECODING = ("tests/samplers/decoding/test_decoding.py", "-k", "all_derivations and (True-3 or True-4)")
_PRUNING = ("tests/samplers/decoding/test_cube_pruning.py", "-k", "twin")
_DISTINCT = ("tests/samplers/decoding/test_decoding.py", "-k", "distinct_translations_are")
_TRANSLATING = "tests/daemon/decoding/test_translating.py"
_GRADIENT = ("tests/daemon/tuning/test_tuning.py", "-k", "gradient")
_LONG = (DRAWS, "-k", "long_rules")
_SHORT = (DRAWS, "-m", "campaign", "-k", "longer_pairs and PY-0")

FAULTS = (
    # Expected uses.
    Fault(
        "options' probabilities are credited after the draw",
        "synchronous/gibbs.py",
        """    credit_cut(v, lower, one.value / total, at)
    choice = draw_of_two(one.value, total, np.int64(present), u, at.leaving)
    add_rules(work.used, _list_cut(joined, upper, lower, choice, work), at)
""",
        """    choice = draw_of_two(one.value, total, np.int64(present), u, at.leaving)
    add_rules(work.used, _list_cut(joined, upper, lower, choice, work), at)
    one = score(work.used, _list_cut(joined, upper, lower, 0, work), at)
    two = score(work.used, _list_cut(joined, upper, lower, 1, work), at)
    credit_cut(v, lower, one.value / (one.value + value_beside(two, one)), at)
    _list_cut(joined, upper, lower, choice, work)
""",
        (CREDITS, "-k", "kernel_credits"),
    ),
    Fault(
        "a rule is credited with the probability that it is not there",
        "synchronous/gibbs.py",
        "credit_cut(v, lower, one.value / total, at)",
        "credit_cut(v, lower, 1.0 - one.value / total, at)",
        (CREDITS, "-k", "kernel_credits"),
    ),
    Fault(
        "rules at forced cuts are not credited",
        "synchronous/averaging.py",
        "credit(rule_at(v, at), v, 1.0, at)",
        "credit(rule_at(v, at), v, 0.0, at)",
        (CREDITS, "-k", "kernel_credits"),
    ),
    Fault(
        "only the last sweep's uses of a known rule are kept",
        "synchronous/averaging.py",
        'entry["uses"] += work.credits[number]["uses"]',
        'entry["uses"] = work.credits[number]["uses"]',
        (CREDITS, "-k", "kernel_credits"),
    ),
    Fault(
        "a fragment is kept with the variables of the option tried last",
        "forests/averages.py",
        "position = put_number(content, position, 2 * np.int64(view.edge[v]) + 1)",
        "position = put_number(content, position, 1)",
        (CREDITS, "-k", "kernel_credits"),
    ),
    Fault(
        "sweeps are halved without their uses",
        "forests/averages.py",
        'averages.entry[k]["uses"] //= 2',
        'averages.entry[k]["uses"] //= 1',
        (AVERAGES, "-k", "forgotten"),
    ),
    # Draws that leave the present value.
    Fault(
        "the present option's arc begins where the circle does",
        "synchronous/draws.py",
        "start = below + u * (sum_ - below)",
        "start = u * (sum_ - below)",
        (DRAWS, "-k", "test_gibbs and True"),
    ),
    Fault(
        "a point moves on by the present option's weight",
        "synchronous/draws.py",
        "largest = max(largest, sum_ - below)",
        "largest = sum_ - below if k == present else largest",
        (DRAWS, "-k", "test_gibbs and True"),
    ),
    Fault(
        "the cut's present value is taken for the other one",
        "synchronous/draws.py",
        "own = total - first if present else first",
        "own = first if present else total - first",
        (DRAWS, "-k", "test_gibbs and True"),
    ),
    Fault(
        "every draw leaves the present value",
        "synchronous/draws.py",
        "INDEPENDENT_SHARE = 0.1",
        "INDEPENDENT_SHARE = 0.0",
        (DRAWS, "-k", "test_gibbs and True"),
    ),
    Fault(
        "a rule that was shared is not counted once it is alone",
        "synchronous/averaging.py",
        'entry["shared"] |= _is_shared(number, at)',
        'entry["shared"] = _is_shared(number, at)',
        (CREDITS, "-k", "shared"),
    ),
    # Tree-substitution grammars.
    Fault(
        "two equal fragments do not see each other where they are joined",
        "trees/gibbs.py",
        "lower_count += same",
        "lower_count += 0",
        (TREES, "-k", "same_fragment"),
    ),
    Fault(
        "a fragment that was taken out twice is taken out once",
        "trees/gibbs.py",
        "present * (1 + same)",
        "present",
        (TREES, "-k", "same_fragment"),
    ),
    Fault(
        "every fragment counts as one draw from the base",
        "trees/priors.py",
        "random)\n                _add_decisions(v, at, tables, draws)",
        "random)\n                _add_decisions(v, at, 1, draws)",
        (TREES, "-k", "every_table"),
    ),
    Fault(
        "one uniform too many decides on tables",
        "trees/priors.py",
        "for seated in range(1, count):",
        "for seated in range(1, count + 1):",
        (TREES, "-k", "tables_have"),
    ),
    Fault(
        "one uniform too few decides on tables",
        "trees/priors.py",
        "for seated in range(1, count):",
        "for seated in range(2, count):",
        (TREES, "-k", "tables_have"),
    ),
    Fault(
        "the chain over draws of a sentence accepts every draw",
        "charts/derivations.py",
        "if np.log(uniform(state)) < log_ratio[draw] - log_ratio[at]:",
        "if np.log(uniform(state)) < 1.0:",
        (PARSING, "-k", "most_probable_parse or chain_over_draws"),
    ),
    # Phrases.
    Fault(
        "a Dirichlet process's total of the last block is kept",
        "synchronous/passes.py",
        'work.registers[0]["customers"] = table.totals[TOKENS]',
        'if work.registers[0]["customers"] == 0:\n        work.registers[0]["customers"] = table.totals[TOKENS]',
        (DRAWS, "-k", "test_blocks and DP"),
    ),
    Fault(
        "a long rule's exponent has the wrong sign",
        "synchronous/resampling.py",
        "exponent += np.int64(whole)",
        "exponent -= np.int64(whole)",
        _LONG,
    ),
    Fault(
        "what is taken out of a small product is put on the wrong side",
        "synchronous/resampling.py",
        "exponent -= 1",
        "exponent += 1",
        _SHORT,
        SMALL_SCALE,
    ),
    Fault(
        "exponents of the options below a node are forgotten",
        "synchronous/resampling.py",
        'own["options_exponent"] = options.exponent',
        'own["options_exponent"] = 0',
        _SHORT,
        SMALL_SCALE,
    ),
    Fault(
        "exponents of the options below a tail are forgotten",
        "synchronous/resampling.py",
        'return Scaled(below["options"], np.int64(below["options_exponent"]))',
        'return Scaled(below["options"], 0)',
        _SHORT,
        SMALL_SCALE,
    ),
    Fault(
        "exponents of the density factor are forgotten",
        "synchronous/resampling.py",
        "    return size, factor\n",
        "    return size, Scaled(factor.value, 0)\n",
        _SHORT,
        SMALL_SCALE,
    ),
    # Scaled products.
    Fault(
        "exponents of factors are subtracted",
        "counts/products.py",
        "product.exponent + other.exponent",
        "product.exponent - other.exponent",
        (PRODUCTS,),
    ),
    Fault(
        "what is taken out of a value is not counted",
        "counts/products.py",
        "product.exponent + 1)",
        "product.exponent)",
        (PRODUCTS,),
    ),
    Fault(
        "a cut's two products are compared in the wrong unit",
        "counts/products.py",
        "SCALE**difference",
        "SCALE**-difference",
        (PRODUCTS,),
    ),
    Fault(
        "a draw leaves out options of the next smaller scale",
        "counts/products.py",
        'elif weight["exponent"] == most - 1:',
        'elif weight["exponent"] == most + 1:',
        (PRODUCTS,),
    ),
    # Counts of 16,384 and more, and logarithms.
    Fault(
        "the discount is left out beyond the table of known counts",
        "counts/models.py",
        "return count - model.discount * np.float64(count) ** model.discount",
        "return np.float64(count)",
        (MODELS,),
    ),
    Fault(
        "tables grow linearly beyond the table of known counts",
        "counts/models.py",
        "np.float64(count) ** model.discount * TABLE_UNIT + 0.5",
        "np.float64(count) * TABLE_UNIT + 0.5",
        (MODELS,),
    ),
    Fault(
        "the last known count has no next one",
        "counts/models.py",
        "if count < len(model.by_count) - 1:",
        "if count < len(model.by_count):",
        (MODELS,),
    ),
    Fault(
        "long rules are scored without discount",
        "counts/models.py",
        "log_mass = math.log(_discounted(model, count) + math.exp(log_mass))",
        "log_mass = math.log(count + math.exp(log_mass))",
        (MODELS,),
    ),
    Fault(
        "long rules of a Dirichlet process forget the mass of a new customer",
        "counts/models.py",
        "log_mass = math.log(count + math.exp(log_mass))",
        "log_mass = math.log(count)",
        (MODELS,),
    ),
    Fault(
        "density factors are raised to the power 1/T",
        "synchronous/gibbs.py",
        "weight = times(weight, factor)",
        "weight = times(weight, tempered(factor, at))",
        (DRAWS, "-k", "temperatures"),
    ),
    Fault(
        "cuts are drawn at T = 1",
        "synchronous/gibbs.py",
        "one = tempered(score(work.used, _list_cut(joined, upper, lower, 0, work), at), at)",
        "one = score(work.used, _list_cut(joined, upper, lower, 0, work), at)",
        (DRAWS, "-k", "temperatures"),
    ),
    Fault(
        "a power of a product forgets its exponent",
        "counts/products.py",
        "return Scaled(math.exp(logarithm - exponent * LOG_SCALE), np.int64(exponent))",
        "return Scaled(math.exp(logarithm - exponent * LOG_SCALE), np.int64(0))",
        (PRODUCTS,),
    ),
    # Type-based moves.
    Fault(
        "it does not count in how many ways the split sites can be chosen",
        "synchronous/type_moves.py",
        "weights = logs[sites] - logs[split] - logs[sites - split]",
        "weights = 0.0 * logs[split]",
        (TYPES,),
    ),
    Fault(
        "sites that share a rule move together",
        "synchronous/type_moves.py",
        "if used.isdisjoint(own):",
        "if used is not own:",
        (TYPES,),
    ),
    Fault(
        "the sites' own rules stay in the counts",
        "synchronous/type_moves.py",
        "for high, low in rules.keys], np.int64) - own",
        "for high, low in rules.keys], np.int64)",
        (TYPES,),
    ),
    Fault(
        "types are those of before the move",
        "synchronous/type_moves.py",
        "derivations.cut[sites] = after\n        self._note(derivations, pairs)",
        "derivations.cut[sites] = after",
        (TYPES,),
    ),
    Fault(
        "two equal parts do not see each other",
        "synchronous/type_moves.py",
        "if rules.equal_parts:\n        weights",
        "if rules.equal_parts and sites < 0:\n        weights",
        (TYPES,),
    ),
    # Schedules.
    Fault(
        "samples are kept while a pair settles",
        "grammar/schedules.py",
        "(self.temperatures(sweeps) == 1.0) & (np.asarray(sweeps) >= self.burn_in)",
        "self.temperatures(sweeps) == 1.0",
        (SCHEDULES,),
    ),
    Fault(
        "a stage begins one sweep early",
        "grammar/schedules.py",
        "stage = (np.asarray(sweeps) - 1) // self.sweeps_per_level + 1",
        "stage = np.asarray(sweeps) // self.sweeps_per_level + 1",
        (SCHEDULES,),
    ),
    Fault(
        "the schedule has one level fewer",
        "grammar/schedules.py",
        "np.where(stage > self.levels, EVERY_LEVEL, stage)",
        "np.where(stage >= self.levels, EVERY_LEVEL, stage)",
        (SCHEDULES,),
    ),
    Fault(
        "annealing never reaches T = 1",
        "grammar/schedules.py",
        "np.clip(part, 0.0, 1.0)",
        "np.clip(part, 0.0, 0.999)",
        (SCHEDULES,),
    ),
    Fault(
        "annealing ends one sweep late",
        "grammar/schedules.py",
        "/ max(self.sweeps - 1, 1)",
        "/ max(self.sweeps, 1)",
        (SCHEDULES,),
    ),
    Fault(
        "warming up is a sweep short",
        "alignment/options.py",
        "stage = 1 + (sweep > self.warming)",
        "stage = 1 + (sweep >= self.warming)",
        (SCHEDULES,),
    ),
    Fault(
        "the second stage of warming up is a sweep short",
        "alignment/options.py",
        "(sweep > 2 * self.warming)",
        "(sweep >= 2 * self.warming)",
        (SCHEDULES,),
    ),
    # The aligner.
    Fault(
        "a word of the highest fertility reads beyond its row",
        "alignment/models/fertility.py",
        "if fertility >= MOST_FERTILITY:",
        "if fertility > MOST_FERTILITY:",
        (ALIGNMENT, "-k", "more_links"),
    ),
    Fault(
        "links beyond the highest fertility are counted one below it",
        "alignment/models/fertility.py",
        "fertility[i] += change\n    chain.fertility[word, min(scratch.fertility[i], MOST_FERTILITY)] += 1",
        "fertility[i] += change\n    chain.fertility[word, min(scratch.fertility[i], MOST_FERTILITY - 1)] += 1",
        (ALIGNMENT, "-k", "more_links"),
    ),
    Fault(
        "a chain in a row is left out where its counts lacked room",
        "alignment/models/fertility.py",
        "(0, sides, chain, scratch) < len(sides.emitted_offset) - 1:\n            return number\n",
        "(0, sides, chain, scratch) < len(sides.emitted_offset) - 1:\n            return number + 1\n",
        (ALIGNMENT, "-k", "in_a_row"),
    ),
    Fault(
        "sweeps in a row add every distribution to the samples",
        "alignment/models/fertility.py",
        "plan = SweepPlan(plans[number, 0], plans[number, 1], plans[number, 2] != 0)",
        "plan = SweepPlan(plans[number, 0], plans[number, 1], plans[number, 2] >= 0)",
        (ALIGNMENT, "-k", "in_a_row"),
    ),
    # Inversion transduction grammars.
    Fault(
        "cells of the derivation have slice variables from Beta",
        "itg/slices.py",
        "    if p > 0.0:\n        weight",
        "    if p > 2.0:\n        weight",
        _ITG_SLICE,
    ),
    Fault(
        "another slice variable at a second visit",
        "itg/sparse.py",
        "    straight, inverted = rule_weights(slices, i, j, x, y)\n    for rule",
        "    straight, inverted = rule_weights(slices, i, j, x, y + 1)\n    for rule",
        _ITG_SLICE,
    ),
    Fault(
        "emissions weigh their probability over the density",
        "itg/slices.py",
        "return _weight_off(slices, unit) if unit",
        "return p * _weight_off(slices, unit) if unit",
        _ITG_SLICE,
    ),
    Fault(
        "rules weigh their probability alone",
        "itg/slices.py",
        "return weight if straight else 0.0, weight if inverted else 0.0",
        "return slices.straight if straight else 0.0, slices.inverted if inverted else 0.0",
        _ITG_SLICE,
    ),
    Fault(
        "slice variables from Beta(1, a)",
        "itg/slices.py",
        "if unit <= p**shape else",
        "if unit <= 1.0 - (1.0 - p) ** shape else",
        _ITG_SLICE,
    ),
    Fault(
        "flat slices prune what the derivation emits",
        "itg/slices.py",
        "to.pairs[i, x] = _keep(0.0, weights.pairs[i, x], shape)",
        "to.pairs[i, x] = _keep(unit_of(key, i, i + 1, x, x + 1), weights.pairs[i, x], shape)",
        (_ITG, "-k", "flat"),
    ),
    Fault(
        "emissions above flat slices weigh their probability",
        "itg/slices.py",
        "return p / survives if unit",
        "return p if unit",
        (_ITG, "-k", "flat"),
    ),
    Fault(
        "every proposal is accepted",
        "itg/sweeps.py",
        "if uniform(advance(random)) * present >= ratio:",
        "if ratio < 0.0:",
        _ITG_SLICE,
    ),
    Fault(
        "the ratio of Metropolis-Hastings upside down",
        "itg/sweeps.py",
        "if uniform(advance(random)) * present >= ratio:",
        "if uniform(advance(random)) * ratio >= present:",
        _ITG_SLICE,
    ),
    Fault(
        "a pair's own counts are in its weights",
        "itg/sweeps.py",
        "    weigh_rules(batch, pair, state.base, state.counts, scratch.weights)\n    return length",
        _OWN_COUNTED,
        _ITG_SLICE,
    ),
    Fault(
        "local moves follow where a chart was given up alone",
        "itg/sweeps.py",
        "if _products(n, m) > scratch.chart.registers[MOST]:",
        "if scratch.numbers[_GIVEN_UP] > 0:",
        ("tests/samplers/itg/test_long_run.py", "-k", "given_up"),
    ),
    Fault(
        "nulls are not put back",
        "itg/model.py",
        'counts.source_nulls[batch.source[s + node["i"]]] += change',
        'counts.source_nulls[batch.source[s + node["i"]]] += min(change, 0)',
        _ITG_SLICE,
    ),
    Fault(
        "children of an inverted rule are swapped",
        "itg/sparse.py",
        "            low, high = (x, z) if rule == STRAIGHT else (z, y)\n            depth",
        "            low, high = (x, z)\n            depth",
        _ITG_SLICE,
    ),
    Fault(
        "a cell is made before its last split is known",
        "itg/sparse.py",
        "for i in range(j - 1, -1, -1):",
        "for i in range(j):",
        _ITG_SLICE,
    ),
    Fault(
        "a row is made before what stands beside target nulls",
        "itg/sparse.py",
        "for z in range(x - 1, -1, -1):",
        "for z in range(x - 1, 0, -1):",
        _ITG_SLICE,
    ),
    Fault(
        "tables of the last sweep stay",
        "itg/base.py",
        "tables.source[:] = 0.0",
        "tables.source[:] *= 1.0",
        _ITG_TABLES,
    ),
    Fault(
        "a table is a whole draw of its words",
        "itg/base.py",
        "SHARE = 0.5",
        "SHARE = 1.0",
        _ITG_TABLES,
    ),
    Fault(
        "the beam of M1 stays after the start",
        "itg/slices.py",
        "_cut(slices, unit_of(slices.key, i, i + 1, x, x + 1), weights.pairs[i, x])",
        "_cut(slices, unit_of(slices.key, i, i + 1, x, x + 1), weights.pairs[i, x]) * (abs(i - x) < 2)",
        _ITG_SLICE,
    ),
    Fault(
        "cells that are needed are thought useless",
        "itg/viability.py",
        "and of.in_target[x, y, 1] < j",
        "and of.in_target[x, y, 1] < j - 1",
        _ITG_SLICE,
    ),
    Fault(
        "a local move does not weigh how it leads back",
        "itg/gibbs.py",
        "    return 1.0 if leaves < PIECES and not whole else 0.5",
        "    return 0.5",
        (_ITG, "-k", "twins_do and gibbs"),
    ),
    Fault(
        "the whole chart has no inverted splits beside target nulls",
        "itg/charts.py",
        "                    total += inverted * chart[last + x * (m + 1) + z] * rest\n",
        "",
        (_ITG, "-k", "twins_do and exhaustive"),
    ),
    # Known links.
    Fault(
        "a word with fixed links may have none",
        "alignment/evidence.py",
        "    if only:\n        weight[0] = 0.0\n",
        "",
        KNOWN_LINKS,
    ),
    Fault(
        "the last of a word's known links is overlooked",
        "alignment/evidence.py",
        "range(evidence.offset[g], evidence.offset[g + 1])",
        "range(evidence.offset[g], evidence.offset[g + 1] - 1)",
        KNOWN_LINKS,
    ),
    # Language models.
    Fault(
        "a context that is given up does not charge its weight",
        "language_models/model.py",
        "        given_up += model.states[at].backoff\n",
        "",
        (LANGUAGE_MODELS,),
    ),
    Fault(
        "open words end a word early",
        "language_models/model.py",
        "model.states[state].length <= k or",
        "model.states[state].length <= k + 1 or",
        (LANGUAGE_MODELS, "-k", "depends"),
    ),
    Fault(
        "every n-gram is a state",
        "language_models/building.py",
        "nodes[k].extended != 0 or nodes[k].backoff != 0)",
        "nodes[k].extended != 0 or nodes[k].backoff <= 0)",
        (LANGUAGE_MODELS, "-k", "states"),
    ),
    Fault(
        "an n-gram that was pruned does not charge its context's weight",
        "language_models/building.py",
        "log10 = parts.nodes[short].backoff + parts.nodes[end].log10",
        "log10 = parts.nodes[end].log10",
        (LANGUAGE_MODELS, "-k", "states"),
    ),
    Fault(
        "sentences run into each other",
        "language_models/text.py",
        "inside = inside and back <= k and numbers[k - back] != END",
        "inside = inside and back <= k",
        ESTIMATION,
    ),
    # Decoding.
    Fault(
        "open words are scored once and for all",
        "decoding/states.py",
        "    if closed:\n        return size, state, closed, final + log10, promised\n",
        "    if closed or size > 0:\n        return size, state, closed, final + log10, promised\n",
        _DECODING,
    ),
    Fault(
        "the state at the end of an item is taken from no context",
        "decoding/states.py",
        "    if there.closed:\n        state = there.state\n        closed = True\n",
        "    if there.closed:\n        closed = True\n",
        _DECODING,
    ),
    Fault(
        "items are popped in the order of what places promise before they are joined",
        "decoding/cubes.py",
        "    there.priority = there.score + task.weighed.weights[LM] * LN_10 * promised\n",
        "    there.priority += 0.0 * promised\n",
        _PRUNING,
    ),
    Fault(
        "joined items are popped without what their open words promise",
        "decoding/cubes.py",
        "    there.priority = there.score + task.weighed.weights[LM] * LN_10 * promised\n",
        "    there.priority = there.score + 0.0 * promised\n",
        _PRUNING,
    ),
    Fault(
        "every place has the margin of a rule over the best items",
        "decoding/cubes.py",
        "        best &= chart.coordinates[chart.candidates[candidate].place + 1 + k] == 0\n",
        "        best &= chart.coordinates[chart.candidates[candidate].place + 1 + k] >= 0\n",
        _PRUNING,
    ),
    Fault(
        "what the language model was asked is taken for any state",
        "decoding/states.py",
        "    if there.state != state or there.word != word:\n",
        "    if there.state == -1 or there.word != word:\n",
        _DECODING,
    ),
    Fault(
        "translations of other items count as seen",
        "decoding/kbest.py",
        "    key = mix(there.said + mix(np.uint64(there.item) + _BASE)) | _ONE\n",
        "    key = mix(there.said + mix(_BASE)) | _ONE\n",
        _DISTINCT,
    ),
    Fault(
        "candidates that are taken bring no others",
        "decoding/kbest.py",
        "        known.cursor = lists.entries[best].grown\n",
        "        known.cursor = 64\n",
        _DISTINCT,
    ),
    Fault(
        "given translations count as passed through",
        "daemon/decoding/translating.py",
        "                bring(side, 0)\n",
        "                bring(side, 1)\n",
        (_TRANSLATING, "-k", "given"),
    ),
    Fault(
        "a division looks back one word further",
        "daemon/decoding/translating.py",
        "range(cut, cut - cut // _LOOK_BACK, -1)",
        "range(cut, cut - cut // _LOOK_BACK - 1, -1)",
        (_TRANSLATING, "-k", "division"),
    ),
    Fault(
        "a division looks back half as far",
        "daemon/decoding/translating.py",
        "_LOOK_BACK = 3\n",
        "_LOOK_BACK = 6\n",
        (_TRANSLATING, "-k", "division"),
    ),
    Fault(
        "the gradient lacks the regularization that the loss has",
        "daemon/tuning/pro.py",
        "_REGULARIZATION * weights - wrong @ differences",
        "-wrong @ differences",
        _GRADIENT,
    ),
    Fault(
        "the loss counts squared weights twice",
        "daemon/tuning/pro.py",
        "+ _REGULARIZATION / 2 * (weights @ weights)",
        "+ _REGULARIZATION * (weights @ weights)",
        _GRADIENT,
    ),
    Fault(
        "a step of tuning changes as many sentences as it likes",
        "daemon/tuning/tuning.py",
        "            if (lists.first(weights) != before).mean() > trusted:\n",
        "            if (lists.first(weights) != before).mean() > 1:\n",
        ("tests/daemon/tuning/test_tuning.py", "-k", "trusted"),
    ),
    *CHART_FAULTS,
)
