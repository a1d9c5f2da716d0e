-- What share of the expected uses is not counted?
SELECT (left_out_0 + left_out_1 + left_out_2 + left_out_3)
       / NULLIF(expected_tokens + left_out_0 + left_out_1 + left_out_2 + left_out_3, 0) AS not_counted
  FROM store_state;

-- Which translations has a source side, how often, how sure?
SELECT target, count, p_target_given_source
  FROM rule_table
 WHERE source = 'la maison'
 ORDER BY count DESC, target
 LIMIT 20;

-- Which translations has a source side, however many?
SELECT target, count, p_target_given_source
  FROM by_source
 WHERE source = 'la maison'
 ORDER BY count DESC, target;

-- Which rules contain a word, on whichever side?
SELECT source, target, count, p_target_given_source
  FROM word_rules
 WHERE token = 'maison' AND side = 'source'
 ORDER BY count DESC, source, target
 LIMIT 20;

-- Which rules contain two words?
SELECT a.source, a.target, a.count
  FROM word_rules AS a
  JOIN word_rules AS b ON b.id = a.id
 WHERE a.token = 'maison' AND a.side = 'source'
   AND b.token = 'house' AND b.side = 'target'
 ORDER BY a.count DESC, a.source, a.target
 LIMIT 20;

-- Which rules go around something with two words, as ne … pas?
SELECT a.source, a.target, a.expected_uses, a.p_target_given_source
  FROM word_rules AS a
  JOIN word_rules AS b ON b.id = a.id
 WHERE a.token = 'ne' AND a.side = 'source'
   AND b.token = 'pas' AND b.side = 'source'
   AND ' ' || a.source || ' ' LIKE '% ne %[X%,_]% pas %'
 ORDER BY a.expected_uses DESC, a.source, a.target
 LIMIT 20;

-- What do people say for a target side?
SELECT source, expected_uses, p_source_given_target
  FROM rule_table
 WHERE target = 'the house'
 ORDER BY expected_uses DESC, source;

-- How often is each rule of a source side expected to be used?
SELECT source, target, expected_uses, expected_uses_error, count
  FROM rule_table
 WHERE source = 'la maison'
 ORDER BY expected_uses DESC, target;

-- Which rules reorder or leave a gap, and are used most?
SELECT source, target, expected_uses, scope
  FROM rule_table
 WHERE nonterminals > 0 AND length > scope + 1
 ORDER BY expected_uses DESC, source, target
 LIMIT 20;

-- Which rules swap their first two phrases?
SELECT source, target, expected_uses, p_target_given_source
  FROM rule_table
 WHERE nonterminals >= 2
   AND ' ' || replace(target, ' ', '  ') || ' ' LIKE '% [X%,2] % [X%,1] %'
 ORDER BY expected_uses DESC, source, target
 LIMIT 20;

-- What is the whole grammar, with its probabilities?
SELECT source, target, count, p_target_given_source, p_source_given_target
  FROM grammar
 WHERE scope <= 2
 ORDER BY source, target;

-- What is the whole grammar, by expected uses?
SELECT source, target, expected_uses, p_target_given_source, p_source_given_target
  FROM averaged_grammar
 WHERE hiero
 ORDER BY source, target;

-- What is the grammar for translating, with the smallest rules of each pair?
SELECT source, target, translation_weight, p_target_given_source, p_source_given_target
  FROM translation_grammar
 WHERE scope <= 2
 ORDER BY source, target;

-- Which source sides have most translations?
SELECT source, count(*) AS translations, sum(count) AS uses
  FROM rules
 WHERE count > 0
 GROUP BY source
 ORDER BY translations DESC, source
 LIMIT 20;

-- Which frequent words have no rule of their own, only rules with company?
SELECT v.token, v.count
  FROM vocabulary AS v
 WHERE v.side = 'source'
   AND NOT EXISTS (SELECT 1 FROM rules AS r WHERE r.source = v.token AND r.count > 0)
 ORDER BY v.count DESC, v.token
 LIMIT 20;

-- Which rules lost most of their expected uses on the last day on which these changed?
SELECT day, source, target, expected_uses_before, expected_uses_now, error, news
  FROM rule_changes
 WHERE day = (SELECT max(day) FROM rule_history)
   AND change < 0
 ORDER BY change, source, target
 LIMIT 20;

-- Which rules do the present derivations use less than expected?
SELECT source, target, count, expected_uses
  FROM rule_table
 WHERE expected_uses > count
 ORDER BY count - expected_uses, source, target
 LIMIT 20;

-- Which pairs use a rule?
SELECT pair_id, corpus, uses, source, target, alignment, current
  FROM rule_support
 WHERE rule_source = 'la maison' AND rule_target = 'the house'
 ORDER BY pair_id
 LIMIT 20;

-- Which rules are used in one corpus only?
SELECT rule_source, rule_target, min(corpus) AS corpus, sum(uses) AS uses
  FROM rule_support
 GROUP BY rule_id, rule_source, rule_target
HAVING count(DISTINCT corpus) = 1
 ORDER BY uses DESC, rule_source, rule_target
 LIMIT 20;

-- Which rules does a pair's derivation use?
SELECT rule_source, rule_target, uses
  FROM rule_support
 WHERE pair_id = 1
 ORDER BY rule_source, rule_target;

-- How large is the grammar at each scope?
SELECT scope, count(*) AS rules_in_use, sum(count) AS uses
  FROM rules
 WHERE count > 0
 GROUP BY scope
 ORDER BY scope;

-- Does learning still move?
SELECT id, stage, pairs, log_likelihood,
       CAST(edges_changed AS DOUBLE PRECISION) / NULLIF(edges_sampled, 0) AS edges_moved,
       CAST(cuts_changed AS DOUBLE PRECISION) / NULLIF(cuts_sampled, 0) AS cuts_moved
  FROM sweeps
 ORDER BY id;

-- How far are the pairs?
SELECT state, count(*) AS pairs, min(sweep) AS fewest_sweeps, max(sweep) AS most_sweeps
  FROM sentence_pairs
 GROUP BY state
 ORDER BY state;

-- How did the store grow, day by day?
SELECT day, pairs, source_tokens, target_tokens
  FROM growth
 ORDER BY day;

-- What was offered, and what became of it?
SELECT b.id, c.name AS corpus, b.origin, b.format, b.state, b.accepted, b.duplicates, b.rejected, b.error, b.notes
  FROM ingest_batches AS b
  JOIN corpora AS c ON c.id = b.corpus_id
 ORDER BY b.id;

-- Why were lines not stored, and which?
SELECT reason, origin, number
  FROM rejections
 ORDER BY number DESC, reason, origin;

-- Which lines were not stored?
SELECT origin, line, last_line, reason, message, content
  FROM rejected_lines
 ORDER BY origin, line
 LIMIT 20;

-- Which files of the spool were set apart?
SELECT at, corpus, file, path, reason
  FROM failed_files
 ORDER BY id DESC
 LIMIT 20;

-- Which pairs hold a word?
SELECT id, source, target, alignment
  FROM sentence_pairs
 WHERE ' ' || source || ' ' LIKE '% maison %'
 ORDER BY id
 LIMIT 20;

-- What was exported, and from which state of the store?
SELECT name, path, state, rules, bytes, sha256, position
  FROM exports
 ORDER BY id;
