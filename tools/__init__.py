"""Programs beside the daemon: benchmarks, comparisons, reproductions."""
