"""Crash scenarios: processes that are killed at every crash point, one module per package."""
