"""Translation by parsing: charts of bounded scope, n-gram states, cube pruning, lazy k-best lists [Chiang 2007]."""
