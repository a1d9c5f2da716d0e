-- What are the translations of a phrase, with their probabilities and errors?
SELECT target, expected_uses, expected_uses_error, p_target_given_source, count
  FROM rule_table
 WHERE source = 'la maison'
 ORDER BY expected_uses DESC, target
 LIMIT 20;

-- Which rules contain a word?
SELECT source, target, expected_uses, p_target_given_source
  FROM word_rules
 WHERE token = 'maison' AND side = 'source'
 ORDER BY expected_uses DESC, source, target
 LIMIT 20;

-- Which rules contain one word on each side?
SELECT a.source, a.target, a.expected_uses
  FROM word_rules AS a
  JOIN word_rules AS b ON b.id = a.id
 WHERE a.token = 'maison' AND a.side = 'source'
   AND b.token = 'house' AND b.side = 'target'
 ORDER BY a.expected_uses DESC, a.source, a.target
 LIMIT 20;

-- Which rules contain a word and a gap?
SELECT source, target, expected_uses, p_target_given_source
  FROM word_rules
 WHERE token = 'maison' AND side = 'source' AND nonterminals > 0
 ORDER BY expected_uses DESC, source, target
 LIMIT 20;

-- Which rules have a gap between two words, as in ne … pas?
SELECT a.source, a.target, a.expected_uses, a.p_target_given_source
  FROM word_rules AS a
  JOIN word_rules AS b ON b.id = a.id
 WHERE a.token = 'ne' AND a.side = 'source'
   AND b.token = 'pas' AND b.side = 'source'
   AND ' ' || a.source || ' ' LIKE '% ne %[X%,_]% pas %'
 ORDER BY a.expected_uses DESC, a.source, a.target
 LIMIT 20;

-- Which words are the most ambiguous?
SELECT source, count(*) AS translations,
       ln(sum(expected_uses)) - sum(expected_uses * ln(expected_uses)) / sum(expected_uses) AS entropy
  FROM rule_table
 WHERE nonterminals = 0 AND source NOT LIKE '% %'
 GROUP BY source
HAVING sum(expected_uses) >= 2
 ORDER BY entropy DESC, source
 LIMIT 20;

-- Which frequent words have no rule of their own?
SELECT v.token, v.count
  FROM vocabulary AS v
 WHERE v.side = 'source'
   AND NOT EXISTS (SELECT 1 FROM rule_table AS r WHERE r.source = v.token)
 ORDER BY v.count DESC, v.token
 LIMIT 20;

-- Which words of a sentence does the store know?
WITH sentence (position, word) AS (VALUES (1, 'la'), (2, 'maison'), (3, 'verte'))
SELECT s.position, s.word, v.count AS occurrences,
       (SELECT count(*) FROM rule_table AS r WHERE r.source = s.word) AS translations
  FROM sentence AS s
  LEFT JOIN vocabulary AS v ON v.token = s.word AND v.side = 'source'
 ORDER BY s.position;

-- Which rules are in the translation grammar?
SELECT source, target, translation_weight, p_target_given_source, p_source_given_target
  FROM translation_grammar
 WHERE scope <= 2
 ORDER BY source, target;

-- Which rules of the current derivations have a source side?
SELECT target, count, p_target_given_source
  FROM current_sample_by_source
 WHERE source = 'la maison'
 ORDER BY count DESC, target;

-- Which rules swap two phrases?
SELECT source, target, expected_uses, p_target_given_source
  FROM rule_table
 WHERE nonterminals >= 2
   AND ' ' || replace(target, ' ', '  ') || ' ' LIKE '% [X%,2] % [X%,1] %'
 ORDER BY expected_uses DESC, source, target
 LIMIT 20;

-- Which rules are the longest?
SELECT source, target, length, expected_uses
  FROM rule_table
 ORDER BY length DESC, expected_uses DESC, source, target
 LIMIT 20;

-- Which rules lost the most expected uses on the last day with changes?
SELECT day, source, target, expected_uses_before, expected_uses_now, standard_error, significant
  FROM rule_changes
 WHERE day = (SELECT max(day) FROM rule_history)
   AND change < 0
 ORDER BY change, source, target
 LIMIT 20;

-- Which rules have changed since a date, most changed first?
SELECT c.source, c.target, c.expected_uses_before, c.expected_uses_now, c.standard_error, c.significant
  FROM rule_changes AS c
  JOIN (
        SELECT rule_id, min(day) AS day
          FROM rule_history
         WHERE day >= '2026-01-01'
         GROUP BY rule_id
       ) AS f ON f.rule_id = c.rule_id AND f.day = c.day
 ORDER BY abs(c.change) DESC, c.source, c.target
 LIMIT 20;

-- What was exported?
SELECT name, path, state, rules, bytes, sha256, position
  FROM exports
 ORDER BY id;

-- What happened between the last two exports?
SELECT id, at, kind, source, target, expected_uses_before, expected_uses_now, count
  FROM events
 WHERE id <= (SELECT max(last_event_id) FROM exports)
   AND id > coalesce((SELECT max(last_event_id) FROM exports WHERE id < (SELECT max(id) FROM exports)), 0)
 ORDER BY id
 LIMIT 20;

-- Which pairs use a rule?
SELECT pair_id, corpus, uses, source, target, alignment, current
  FROM rule_support
 WHERE rule_source = 'la maison' AND rule_target = 'the house'
 ORDER BY pair_id
 LIMIT 20;

-- Which rules does a pair use?
SELECT rule_source, rule_target, uses
  FROM rule_support
 WHERE pair_id = 1
 ORDER BY rule_source, rule_target;

-- How does each corpus translate a phrase?
SELECT corpus, rule_target, sum(uses) AS uses
  FROM rule_support
 WHERE rule_source = 'la maison'
 GROUP BY corpus, rule_target
 ORDER BY corpus, uses DESC, rule_target;

-- Which pairs contain a word?
SELECT id, source, target, alignment
  FROM sentence_pairs
 WHERE ' ' || source || ' ' LIKE '% maison %'
 ORDER BY id
 LIMIT 20;

-- How many pairs arrived on each day?
SELECT day, pairs, source_tokens, target_tokens
  FROM pairs_by_day
 ORDER BY day;

-- How many pairs are in each state of sampling?
SELECT state, count(*) AS pairs, min(sweep) AS fewest_sweeps, max(sweep) AS most_sweeps
  FROM sentence_pairs
 GROUP BY state
 ORDER BY state;

-- Do the samples still change?
SELECT id, stage, pairs, log_likelihood,
       CAST(edges_changed AS DOUBLE PRECISION) / NULLIF(edges_sampled, 0) AS edges_moved,
       CAST(cuts_changed AS DOUBLE PRECISION) / NULLIF(cuts_sampled, 0) AS cuts_moved
  FROM sweeps
 ORDER BY id;

-- What did each input contain?
SELECT b.id, c.name AS corpus, b.origin, b.format, b.state, b.accepted, b.duplicates, b.rejected, b.error, b.notes
  FROM ingest_batches AS b
  JOIN corpora AS c ON c.id = b.corpus_id
 ORDER BY b.id;

-- Why were lines rejected?
SELECT reason, origin, lines
  FROM rejections
 ORDER BY lines DESC, reason, origin;

-- Which lines were rejected?
SELECT origin, line, last_line, reason, message, content
  FROM rejected_lines
 ORDER BY origin, line
 LIMIT 20;

