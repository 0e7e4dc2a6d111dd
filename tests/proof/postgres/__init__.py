"""PostgreSQL: its answers are lost, its backends ended and frozen, and it is killed under load."""
