"""What people run beside the daemon: benchmarks, comparisons, reproductions."""
