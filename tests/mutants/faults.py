"""The list of faults: where each is put, and the tests that must notice it."""

from tests.mutants.charts import CHART_FAULTS
from tests.mutants.daemon import DAEMON_FAULTS
from tests.mutants.fault import Change, Fault
from tests.mutants.stores import STORE_FAULTS

SMALL_SCALE = (
    Change("synchronous/draws.py", "SCALE = 2.0**256", "SCALE = 2.0**24"),
    Change("synchronous/draws.py", "LOG_SCALE = 256 * math.log(2.0)", "LOG_SCALE = 24 * math.log(2.0)"),
)
"""Products of a few factors leave the range of one value."""

TREES = "tests/samplers/trees/test_tree_sampler.py"
DRAWS = "tests/samplers/synchronous/test_draw_for_draw.py"
TYPES = "tests/samplers/synchronous/test_type_moves.py"
MODELS = "tests/samplers/counts/test_models.py"
PRODUCTS = "tests/samplers/synchronous/test_draws.py"
SCHEDULES = "tests/samplers/grammar/test_schedules.py"
PARSING = "tests/daemon/treebanks/test_parsing.py"
ALIGNMENT = "tests/samplers/alignment/test_kernels.py"
WORD_MOVES = (ALIGNMENT, "-k", "twin_does and bhmm-0")
DECODING = "tests/samplers/alignment/test_symmetrization.py"
KNOWN_LINKS = ("tests/samplers/alignment/test_evidence.py", "-k", "twin_does")

SCORES = ("tests/daemon/scoring/test_scores.py", "-k", "sqlite and (same_numbers or scope_three or cut or copies)")
LEXICON = ("tests/samplers/scores/test_lexicon.py",)
DENSE = ("tests/samplers/charts/test_dense.py",)
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
_ITG_STRENGTHS = ("tests/samplers/itg/test_long_run.py", "-k", "quadrature")
_ITG_TABLES = ("tests/samplers/itg/test_long_run.py", "-k", "half_a_draw")
CREDITS = "tests/samplers/synchronous/test_expected_uses.py"
AVERAGES = "tests/samplers/forests/test_averages.py"
COMPOSITIONS = "tests/samplers/forests/test_compositions.py"

_DECODING = ("tests/samplers/decoding/test_decoding.py", "-k", "all_derivations and (True-3 or True-4)")
_PRUNING = ("tests/samplers/decoding/test_cube_pruning.py", "-k", "twin")
_DISTINCT = ("tests/samplers/decoding/test_decoding.py", "-k", "distinct_translations_are")
_TRANSLATING = "tests/daemon/decoding/test_translating.py"
_SEGMENTS = "tests/daemon/corpora/test_segments.py"
_GRADIENT = ("tests/daemon/tuning/test_tuning.py", "-k", "gradient")
_LONG = (DRAWS, "-k", "long_rules")
_SHORT = (DRAWS, "-m", "campaign", "-k", "longer_pairs and PY-0")

FAULTS = (
    # Expected uses.
    Fault(
        "options' probabilities are credited after the draw",
        "synchronous/gibbs.py",
        """    if work.registers[0]["averaged"]:
        credit(lower, v, 1.0 - one.value / total, at)
    choice = draw_of_two(one.value, total, np.int64(present), u, at.leaving)
    add_rules(work.used, _list_cut(joined, upper, lower, choice, work), at)
""",
        """    choice = draw_of_two(one.value, total, np.int64(present), u, at.leaving)
    add_rules(work.used, _list_cut(joined, upper, lower, choice, work), at)
    one = score(work.used, _list_cut(joined, upper, lower, 0, work), at)
    two = score(work.used, _list_cut(joined, upper, lower, 1, work), at)
    if work.registers[0]["averaged"]:
        credit(lower, v, 1.0 - one.value / (one.value + value_beside(two, one)), at)
    _list_cut(joined, upper, lower, choice, work)
""",
        (CREDITS, "-k", "kernel_credits"),
    ),
    Fault(
        "a rule is credited with the probability that it is not there",
        "synchronous/gibbs.py",
        "credit(lower, v, 1.0 - one.value / total, at)",
        "credit(lower, v, one.value / total, at)",
        (CREDITS, "-k", "kernel_credits"),
    ),
    Fault(
        "rules at forced cuts are not credited",
        "synchronous/gibbs.py",
        "credit(number, v, 1.0, at)",
        "credit(number, v, 0.0, at)",
        (CREDITS, "-k", "kernel_credits"),
    ),
    Fault(
        "a rule at a forced cut has the class that another edge would give it",
        "synchronous/gibbs.py",
        """                _sum_up(v, at)
                credit(number""",
        """                credit(number""",
        (CREDITS, "-k", "kernel_credits"),
    ),
    Fault(
        "only the last sweep's uses of a known rule are kept",
        "synchronous/gibbs.py",
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
        "a phrase that was left open stays so in the next composition",
        "forests/compositions.py",
        "                    view.cut[x] = 0\n",
        "",
        (COMPOSITIONS,),
    ),
    Fault(
        "phrases over the span limit are composed",
        "forests/compositions.py",
        'return node["free"] and _words(node, 0)',
        "return _words(node, 0)",
        (COMPOSITIONS,),
    ),
    Fault(
        "sweeps are halved without their uses",
        "forests/averages.py",
        'entry["uses"] //= 2',
        'entry["uses"] //= 1',
        (AVERAGES, "-k", "follow and 5000"),
    ),
    Fault(
        "sums are halved without the number of sweeps",
        "forests/averages.py",
        "averages.sweeps[pair] //= 2",
        "averages.sweeps[pair] -= 1",
        (AVERAGES, "-k", "follow and 5000"),
    ),
    Fault(
        "what rules may have missed is not halved",
        "forests/averages.py",
        "most = (_most_uses(entry) + 1) // 2",
        'most = entry["uses"] + np.int64(entry["missed"])',
        (AVERAGES, "-k", "little_room"),
    ),
    Fault(
        "the floor is not halved",
        "forests/averages.py",
        "averages.floor[pair] = (averages.floor[pair] + 1) // 2",
        "averages.floor[pair] = averages.floor[pair]",
        (AVERAGES, "-k", "little_room"),
    ),
    Fault(
        "the error of a replaced entry is not handed on",
        "forests/averages.py",
        "averages.floor[pair] = max(averages.floor[pair], _most_uses(entry))",
        'averages.floor[pair] = max(averages.floor[pair], np.int64(entry["uses"]))',
        (AVERAGES, "-k", "little_room"),
    ),
    Fault(
        "an entry's birth is forgotten",
        "forests/averages.py",
        "root, (uses, averages.floor[pair]), shared",
        "root, (uses, 0), shared",
        (AVERAGES, "-k", "little_room"),
    ),
    Fault(
        "entries are let go as if they had been there from the start",
        "forests/averages.py",
        "if _most_uses(entry) < least:",
        'if np.int64(entry["uses"]) < least:',
        (AVERAGES, "-k", "follow and 20000"),
    ),
    Fault(
        "a rule has no entry where there is no room",
        "forests/averages.py",
        "while not _has_room(averages, pair, slots) and averages.taken[pair] > 0:",
        "while not _has_room(averages, pair, slots) and averages.taken[pair] < 0:",
        (AVERAGES, "-k", "little_room"),
    ),
    Fault(
        "a fragment is not moved with its entry",
        "forests/averages.py",
        'averages.content[begin + start + byte] = averages.content[begin + entry["start"] + byte]',
        "averages.content[begin + start + byte] = averages.content[begin + start + byte]",
        (AVERAGES, "-k", "little_room"),
    ),
    Fault(
        "the uses of rules whose fragments have no room are lost",
        "synchronous/gibbs.py",
        'work.registers[0]["lost"] += uses',
        'work.registers[0]["lost"] += 0',
        (CREDITS, "-k", "without_room"),
    ),
    Fault(
        "all credits are of rules without nonterminals",
        "synchronous/gibbs.py",
        'work.mass[class_of(work.summary[v]["nonterminals"])] += uses',
        "work.mass[0] += uses",
        (CREDITS, "-k", "nonterminals"),
    ),
    Fault(
        "what is counted is left out, too",
        "forests/records.py",
        "left_out[_class_of(records.content, start, position)] -= weight",
        "left_out[_class_of(records.content, start, position)] -= 0",
        (CREDITS, "-k", "nonterminals"),
    ),
    Fault(
        "small variances are rounded down",
        "forests/averages.py",
        "min(mean, ONE_USE)) + sweeps) // (2 * max(sweeps, 1))",
        "min(mean, ONE_USE))) // (2 * ONE_USE * max(sweeps, 1)) * ONE_USE",
        (AVERAGES, "-k", "rounded_away"),
    ),
    Fault(
        "means are rounded down",
        "forests/averages.py",
        "(2 * np.int64(uses) + sweeps) // (2 * max(sweeps, 1))",
        "np.int64(uses) // max(sweeps, 1)",
        (AVERAGES, "-k", "favor"),
    ),
    Fault(
        "ITG sums are halved without the number of sweeps",
        "itg/summaries.py",
        "averages.sweeps[pair] //= 2",
        "averages.sweeps[pair] -= 1",
        ("tests/samplers/itg/test_summaries.py", "-k", "follow"),
    ),
    Fault(
        "ITG sweeps are halved without their uses",
        "itg/summaries.py",
        "averages.uses[at] >>= np.uint32(1)",
        "averages.uses[at] >>= np.uint32(0)",
        ("tests/samplers/itg/test_summaries.py", "-k", "follow"),
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
        "synchronous/gibbs.py",
        'entry["shared"] |= _is_shared(number, at)',
        'entry["shared"] = _is_shared(number, at)',
        (CREDITS, "-k", "shared"),
    ),
    # Tree-substitution grammars.
    Fault(
        "two equal fragments do not see each other where they are joined",
        "trees/sampler.py",
        "lower_count += same",
        "lower_count += 0",
        (TREES, "-k", "same_fragment"),
    ),
    Fault(
        "a fragment that was taken out twice is taken out once",
        "trees/sampler.py",
        "present * (1 + same)",
        "present",
        (TREES, "-k", "same_fragment"),
    ),
    Fault(
        "every fragment counts as one draw from the base",
        "trees/sampler.py",
        "random)\n                _add_decisions(v, at, tables, draws)",
        "random)\n                _add_decisions(v, at, 1, draws)",
        (TREES, "-k", "every_table"),
    ),
    Fault(
        "one uniform too many decides on tables",
        "trees/sampler.py",
        "for seated in range(1, count):",
        "for seated in range(1, count + 1):",
        (TREES, "-k", "tables_have"),
    ),
    Fault(
        "one uniform too few decides on tables",
        "trees/sampler.py",
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
        "synchronous/sweeps.py",
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
        "synchronous/draws.py",
        "product.exponent + other.exponent",
        "product.exponent - other.exponent",
        (PRODUCTS,),
    ),
    Fault(
        "what is taken out of a value is not counted",
        "synchronous/draws.py",
        "product.exponent + 1)",
        "product.exponent)",
        (PRODUCTS,),
    ),
    Fault(
        "a cut's two products are compared in the wrong unit",
        "synchronous/draws.py",
        "SCALE**difference",
        "SCALE**-difference",
        (PRODUCTS,),
    ),
    Fault(
        "a draw leaves out options of the next smaller scale",
        "synchronous/draws.py",
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
        "synchronous/draws.py",
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
    Fault(
        "second rules of split sites stay in the total",
        "synchronous/type_moves.py",
        "table.rule_tokens - sites - split, sites",
        "table.rule_tokens - sites, sites",
        (TYPES,),
    ),
    Fault(
        "sites share their lower rules",
        "synchronous/type_moves.py",
        "{int(heads[node]), node} if derivations.cut[node] else {int(heads[node])}",
        "{int(heads[node])}",
        (TYPES,),
    ),
    Fault(
        "of three sites, the first ones split more often",
        "synchronous/type_moves.py",
        "if draws.uniform() * (sites - k) < left:",
        "if draws.uniform() * min(sites - k, 2) < left:",
        (TYPES,),
    ),
    # Schedules.
    Fault(
        "means begin while a pair settles",
        "grammar/schedules.py",
        "return self.sweeps + self.settling",
        "return self.sweeps",
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
        "levels enter one sweep late",
        "grammar/schedules.py",
        "np.where(level > self.levels, EVERY_LEVEL, level)",
        "np.where(level > self.levels + 2, EVERY_LEVEL, level - 2)",
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
        "the way back of a word's move favours the same word",
        "alignment/models/hmm.py",
        "one, other, 1.0 / tilt, False, state)",
        "one, other, tilt, False, state)",
        WORD_MOVES,
    ),
    Fault(
        "a word's move forgets how probably it was chosen",
        "alignment/models/hmm.py",
        "ratio = -math.log(_chance(sides, chain, f, one, other))",
        "ratio = 0.0",
        WORD_MOVES,
    ),
    Fault(
        "a word's move leaves out the jumps",
        "alignment/models/hmm.py",
        "+ words + moved",
        "+ words",
        WORD_MOVES,
    ),
    Fault(
        "a word of the highest fertility reads beyond its row",
        "alignment/models/fertility.py",
        "or fertility >= MOST_FERTILITY:",
        "or fertility > MOST_FERTILITY:",
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
        "plan = AlignmentPlan(plans[number, 0], plans[number, 1], plans[number, 2] != 0)",
        "plan = AlignmentPlan(plans[number, 0], plans[number, 1], plans[number, 2] >= 0)",
        (ALIGNMENT, "-k", "in_a_row"),
    ),
    Fault(
        "posteriors are averaged before one direction is transposed",
        "alignment/marginals.py",
        "forward.cells[cell + t * height + s] / forward.samples[0]",
        "forward.cells[cell + s * width + t] / forward.samples[0]",
        (DECODING,),
    ),
    Fault(
        "the sum of both directions' posteriors is compared with the threshold of their mean",
        "alignment/marginals.py",
        "(of_target + of_source) / 2 > LIKELY_IN_MEAN",
        "of_target + of_source > LIKELY_IN_MEAN",
        (DECODING,),
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
        "itg/slices.py",
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
        "itg/sampler.py",
        "if uniform(advance(random)) * present >= ratio:",
        "if ratio < 0.0:",
        _ITG_SLICE,
    ),
    Fault(
        "the ratio of Metropolis-Hastings upside down",
        "itg/sampler.py",
        "if uniform(advance(random)) * present >= ratio:",
        "if uniform(advance(random)) * ratio >= present:",
        _ITG_SLICE,
    ),
    Fault(
        "a pair's own counts are in its weights",
        "itg/sampler.py",
        "    weigh_rules(batch, pair, state.base, state.counts, scratch.weights)\n    return length",
        _OWN_COUNTED,
        _ITG_SLICE,
    ),
    Fault(
        "local moves follow where a chart was given up alone",
        "itg/sampler.py",
        "if _products(n, m) > scratch.chart.registers[MOST]:",
        "if scratch.numbers[_GIVEN_UP] > 0:",
        ("tests/samplers/itg/test_long_run.py", "-k", "given_up"),
    ),
    Fault(
        "nulls are not put back",
        "itg/model.py",
        "counts.source_nulls[batch.source[batch.source_offset[pair] + i]] += change",
        "counts.source_nulls[batch.source[batch.source_offset[pair] + i]] += min(change, 0)",
        _ITG_SLICE,
    ),
    Fault(
        "children of an inverted rule are swapped",
        "itg/slices.py",
        "            low, high = (x, z) if rule == STRAIGHT else (z, y)\n            depth",
        "            low, high = (x, z)\n            depth",
        _ITG_SLICE,
    ),
    Fault(
        "a cell is made before its last split is known",
        "itg/slices.py",
        "for i in range(j - 1, -1, -1):",
        "for i in range(j):",
        _ITG_SLICE,
    ),
    Fault(
        "a row is made before what stands beside target nulls",
        "itg/slices.py",
        "for z in range(x - 1, -1, -1):",
        "for z in range(x - 1, 0, -1):",
        _ITG_SLICE,
    ),
    Fault(
        "a null of the source has the strength of the target's",
        "itg/model.py",
        "base.strengths[SOURCE_NULL_STRENGTH] * base.null_source[word]",
        "base.strengths[TARGET_NULL_STRENGTH] * base.null_source[word]",
        _ITG_SLICE,
    ),
    Fault(
        "frozen weights of source nulls have the strength of the target's",
        "itg/model.py",
        "scale = weights.rules[SOURCE_NULL] / (counts.rules[SOURCE_NULL] + base.strengths[SOURCE_NULL_STRENGTH])",
        "scale = weights.rules[SOURCE_NULL] / (counts.rules[SOURCE_NULL] + base.strengths[TARGET_NULL_STRENGTH])",
        _ITG_SLICE,
    ),
    Fault(
        "the Metropolis-Hastings ratio has the pairs' strength for nulls",
        "itg/model.py",
        "p /= of_rule + base.strengths[SOURCE_NULL_STRENGTH]",
        "p /= of_rule + base.strengths[PAIR_STRENGTH]",
        _ITG_SLICE,
    ),
    Fault(
        "local moves weigh source nulls with the strength of the target's",
        "itg/gibbs.py",
        "strength = base.strengths[SOURCE_NULL_STRENGTH]",
        "strength = base.strengths[TARGET_NULL_STRENGTH]",
        (_ITG, "-k", "twins_do and gibbs"),
    ),
    Fault(
        "ln α is drawn without the Jacobian",
        "itg/model.py",
        "density = (STRENGTH_SHAPE + tables) * log_strength",
        "density = (STRENGTH_SHAPE - 1.0 + tables) * log_strength",
        _ITG_STRENGTHS,
    ),
    Fault(
        "ln γ is drawn without the Jacobian",
        "itg/model.py",
        "density = STRENGTH_SHAPE * log_strength",
        "density = (STRENGTH_SHAPE - 1.0) * log_strength",
        _ITG_STRENGTHS,
    ),
    Fault(
        "α of source nulls is drawn from the tables of the target's",
        "itg/model.py",
        "SOURCE_NULL_STRENGTH, tables.source_nulls, rules[SOURCE_NULL], random",
        "SOURCE_NULL_STRENGTH, tables.target_nulls, rules[SOURCE_NULL], random",
        _ITG_STRENGTHS,
    ),
    Fault(
        "γ of the target is drawn from the source's draws",
        "itg/model.py",
        "TARGET_STRENGTH, tables.target, random",
        "TARGET_STRENGTH, tables.source, random",
        _ITG_STRENGTHS,
    ),
    Fault(
        "tables of the last sweep stay",
        "itg/model.py",
        "tables.source[:] = 0.0",
        "tables.source[:] *= 1.0",
        _ITG_TABLES,
    ),
    Fault(
        "a table is a whole draw of its words",
        "itg/model.py",
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
        "itg/slices.py",
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
        "alignment/chain.py",
        "    if only:\n        weight[0] = 0.0\n",
        "",
        KNOWN_LINKS,
    ),
    Fault(
        "the last of a word's known links is overlooked",
        "alignment/chain.py",
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
        "language_models/lines.py",
        "inside = inside and back <= k and numbers[k - back] != END",
        "inside = inside and back <= k",
        ESTIMATION,
    ),
    # Decoding.
    Fault(
        "open words are scored once and for all",
        "decoding/cubes.py",
        "    if closed:\n        return size, there.next, closed, final + there.log10, promised\n",
        "    if closed or size > 0:\n        return size, there.next, closed, final + there.log10, promised\n",
        _DECODING,
    ),
    Fault(
        "the state at the end of an item is taken from no context",
        "decoding/cubes.py",
        "    if there.closed:\n        state = there.state\n        closed = True\n",
        "    if there.closed:\n        closed = True\n",
        _DECODING,
    ),
    # Scores of pairs.
    Fault(
        "own uses stay in the uses of rules of a length",
        "scores/scorer.py",
        "            factors[rules.lengths[rule]] -= pairs.times[k]\n",
        "",
        SCORES,
    ),
    Fault(
        "own uses stay in what rules keep of all",
        "scores/scorer.py",
        "            new += less * factors[rules.lengths[rule]]",
        "            new += 0 * less",
        SCORES,
    ),
    Fault(
        "own uses stay in the weights of rules",
        "scores/scorer.py",
        "            own[rule] += pairs.times[k]",
        "            own[rule] += 0",
        SCORES,
    ),
    Fault(
        "own partners stay among a word's partners",
        "scores/lexicon.py",
        "partners -= facts.gone[link]",
        "partners -= 0",
        LEXICON,
    ),
    Fault(
        "own links stay among a word's links",
        "scores/lexicon.py",
        "                    links -= 1",
        "                    links -= 0",
        LEXICON,
    ),
    Fault(
        "own words stay in words' probabilities",
        "scores/lexicon.py",
        "                    seen -= 1",
        "                    seen -= 0",
        LEXICON,
    ),
    Fault(
        "own words stay in the total of all words",
        "scores/lexicon.py",
        "    total = counts.total - len(own_words)",
        "    total = counts.total",
        LEXICON,
    ),
    Fault(
        "words that only the pair has stay in the vocabulary",
        "scores/lexicon.py",
        "            vocabulary -= 1",
        "            vocabulary -= 0",
        LEXICON,
    ),
    Fault(
        "own linked words stay in the rate of words without a link",
        "scores/lexicon.py",
        "(counts.linked_total - bound)",
        "counts.linked_total",
        LEXICON,
    ),
    Fault(
        "own neighbours stay in the counts of neighbours",
        "scores/lexicon.py",
        "            both -= a == left and b == here and c == right",
        "            both -= 0",
        LEXICON,
    ),
    Fault(
        "a rule has one table",
        "scores/scorer.py",
        "    return count - rules.discount * float(count) ** rules.discount",
        "    return count - rules.discount",
        SCORES,
    ),
    Fault(
        "rules of scope three are left out",
        "daemon/scoring/learned.py",
        "_MOST_SCOPE = 3",
        "_MOST_SCOPE = 2",
        SCORES,
    ),
    Fault(
        "pieces are not joined by a rule",
        "scores/scorer.py",
        "(number - 1) * np.log(base.straight)",
        "0 * np.log(base.straight)",
        SCORES,
    ),
    Fault(
        "copies are not doubtful",
        "daemon/scoring/doubts.py",
        "_COPIED * _copied(source, target)",
        "0 * _copied(source, target)",
        SCORES,
    ),
    Fault(
        "words of front frames are left out of outside sums",
        "charts/dense.py",
        "for number in range(6 if room.sizes[_FRONTS] > 0 else 3):",
        "for number in range(3):",
        DENSE,
    ),
    Fault(
        "words after the last nonterminal of a frame are not looked at",
        "charts/dense.py",
        "_weigh_words(middle + 1, after, x - after, sides, words, piece)",
        "1.0",
        DENSE,
    ),
    Fault(
        "one place of a rule on the target side counts, of several",
        "charts/dense.py",
        "                    last = p + 1\n            if last < 0:",
        "                    last = p + 1\n                    break\n            if last < 0:",
        DENSE,
    ),
    Fault(
        "bispans count as negligible that are not",
        "charts/dense.py",
        "_NEGLIGIBLE = 1e-10",
        "_NEGLIGIBLE = 1e-3",
        DENSE,
    ),
    Fault(
        "items are popped in the order of what places promise before they are joined",
        "decoding/cubes.py",
        "    made.rank = made.score + task.weighed.weights[LM] * LN_10 * promised\n",
        "    made.rank = there.apart + 0.0 * promised\n",
        _PRUNING,
    ),
    Fault(
        "joined items are popped without what their open words promise",
        "decoding/cubes.py",
        "    made.rank = made.score + task.weighed.weights[LM] * LN_10 * promised\n",
        "    made.rank = made.score + 0.0 * promised\n",
        _PRUNING,
    ),
    Fault(
        "every place has the margin of a rule over the best items",
        "decoding/cubes.py",
        "(MARGIN if candidate.grown == 0 else NEAR_MARGIN)",
        "(MARGIN if candidate.grown >= 0 else NEAR_MARGIN)",
        _PRUNING,
    ),
    Fault(
        "places promise nothing of what their neighbours gained",
        "decoding/cubes.py",
        "    return candidate.apart + INHERITED * gained + margin\n",
        "    return candidate.apart + 0.0 * gained + margin\n",
        _PRUNING,
    ),
    Fault(
        "places promise what their neighbours promised beforehand, too",
        "decoding/cubes.py",
        "    gained = rank - there.apart\n",
        "    gained = rank - 0.9 * there.apart\n",
        _PRUNING,
    ),
    Fault(
        "what the language model was asked is taken for any state",
        "decoding/cubes.py",
        "    if there.state != state or there.word != word:\n",
        "    if there.state == -1 or there.word != word:\n",
        _DECODING,
        (Change("decoding/chart.py", "_MEMORIES = 1 << 14", "_MEMORIES = 1"),),
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
        "a word's own mark is taken for that of a part",
        "daemon/corpora/segments.py",
        "            return word.replace(PART_MARK, _GUARD + PART_MARK)\n",
        "            return word\n",
        (_SEGMENTS, "-k", "any_words"),
    ),
    Fault(
        "parts are joined from the left, not by rank",
        "daemon/corpora/segments.py",
        "            _, at = min(ranked)\n",
        "            _, at = ranked[0]\n",
        (_SEGMENTS, "-k", "in_their_order"),
    ),
    Fault(
        "lengths are sought on the wrong side",
        "daemon/decoding/lengths.py",
        "            if length < wanted:\n",
        "            if length > wanted:\n",
        ("tests/daemon/decoding/test_lengths.py", "-k", "is_found"),
    ),
    Fault(
        "the gradient lacks the regularization that the loss has",
        "daemon/tuning/tuning.py",
        "_REGULARIZATION * weights + strength * away",
        "strength * away",
        _GRADIENT,
    ),
    Fault(
        "the loss counts squared weights twice",
        "daemon/tuning/tuning.py",
        "+= _REGULARIZATION / 2 * (weights @ weights)",
        "+= _REGULARIZATION * (weights @ weights)",
        _GRADIENT,
    ),
    Fault(
        "a round goes on whatever it loses",
        "daemon/tuning/tuning.py",
        "        if start is not None and bleu_of(total).score < least:\n",
        "        if start is not None and bleu_of(total).score < -1:\n",
        ("tests/daemon/tuning/test_tuning.py", "-k", "far_below"),
    ),
    Fault(
        "another start goes on from the best round",
        "daemon/tuning/tuning.py",
        "                best, trusted = 0, _TRUSTED\n",
        "                trusted = _TRUSTED\n",
        ("tests/daemon/tuning/test_tuning.py", "-k", "starts_again"),
    ),
    Fault(
        "a step of tuning changes as many sentences as it likes",
        "daemon/tuning/tuning.py",
        "            if changed > trusted:\n",
        "            if changed > 1:\n",
        ("tests/daemon/tuning/test_tuning.py", "-k", "trusted"),
    ),
    Fault(
        "a step of tuning stays where no shorter one changes a translation",
        "daemon/tuning/tuning.py",
        "                if changed < fewest:\n",
        "                if changed < 0:\n",
        ("tests/daemon/tuning/test_tuning.py", "-k", "repeats_itself"),
    ),
    Fault(
        "the weight of words is fitted where the length is right already",
        "daemon/tuning/tuning.py",
        "    if length_ratio(lists, 0.0) == ratio:\n",
        "    if length_ratio(lists, 0.0) == -1:\n",
        ("tests/daemon/tuning/test_tuning.py", "-k", "weight_of_words"),
    ),
    *CHART_FAULTS,
    *STORE_FAULTS,
    *DAEMON_FAULTS,
)
