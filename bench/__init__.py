"""Benchmarks: the same work done by Onceward and by its peers, in one run, as ratios."""
