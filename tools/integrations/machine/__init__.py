"""Tools for Bible translators: a store as a word alignment model of sil-machine, and Scripture Burrito alignments."""
