-- What a move took out of the line, because its cursor will read it again: kept for the undoing of a seek.
-- A row without bytes is not a parked message but the attempts of one that held its cursor.
create table onceward_forgotten (
  id integer primary key autoincrement,
  history_id integer not null references cursor_history (id),
  cursor_name text not null,
  position text not null,
  sequence integer not null,
  key text,
  alone integer not null check (alone in (0, 1)),
  raw blob,
  attempt integer not null,
  due_seconds real,
  due_boot text,
  due_at text,
  failures text not null,
  first_failed_at text,
  parked_at text
) strict;
create index onceward_forgotten_by_move on onceward_forgotten (history_id, id);
