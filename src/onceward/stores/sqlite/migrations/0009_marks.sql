-- Nothing to change here: nobody takes a cursor over while its worker holds the file's write lock.

-- A move settles what was read since, whichever seek had forgotten it.
create index onceward_forgotten_by_cursor on onceward_forgotten (cursor_name, id);
