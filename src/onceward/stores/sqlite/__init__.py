"""SQLite: the engine for one machine."""
