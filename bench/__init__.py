"""Compare Onceward with other projects that do the same work, in one run, as ratios."""
