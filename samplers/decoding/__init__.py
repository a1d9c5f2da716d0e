"""Translation by parsing: charts of bounded scope, cube pruning, lazy k-best lists [Chiang 2007]."""
