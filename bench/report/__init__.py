"""Everything that is made of bench/results/: docs/performance.md with its plots, and an HTML page of any files of
results."""
