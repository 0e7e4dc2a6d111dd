-- Every key has its number already: SQLite's own.
select 1;
