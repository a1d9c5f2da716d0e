"""Bible translators' tools: a store as a word alignment model of sil-machine, and Scripture Burrito's alignments."""
