"""PostgreSQL: the store engine for processes of many machines."""
