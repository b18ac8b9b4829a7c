"""Renders results: docs/performance.md with its plots from bench/results/, and an HTML page from any result files."""
