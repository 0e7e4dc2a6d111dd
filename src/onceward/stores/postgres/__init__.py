"""PostgreSQL: the engine for many machines."""
