"""SQLite: the store engine for processes of one machine."""
