-- What failed and waits: attempts by position, parked messages in line behind their key, dead letters.
-- A due time is kept three ways: boot seconds and boot id decide while the machine runs, wall time after
-- it was started anew.
create table onceward_retry_turns (
  cursor_name text primary key,
  last_sequence integer not null
) strict;

create table onceward_attempts (
  cursor_name text not null,
  position text not null,
  sequence integer not null,
  attempt integer not null check (attempt > 0),
  due_seconds real not null,
  due_boot text not null,
  due_at text not null,
  failures text not null,
  first_failed_at text not null,
  primary key (cursor_name, position)
) strict;

create table onceward_parked (
  id integer primary key autoincrement,
  cursor_name text not null,
  position text not null,
  sequence integer not null,
  key text,
  alone integer not null check (alone in (0, 1) and (alone or key is not null)),
  is_head integer not null check (is_head in (0, 1) and (is_head or not alone)),
  raw blob not null,
  attempt integer not null check (attempt >= 0),
  due_seconds real,
  due_boot text,
  due_at text,
  failures text not null,
  first_failed_at text,
  parked_at text not null,
  unique (cursor_name, position),
  unique (cursor_name, sequence)
) strict;
create unique index onceward_parked_one_head on onceward_parked (cursor_name, key) where is_head and not alone;
create index onceward_parked_heads on onceward_parked (cursor_name, sequence) where is_head;
create index onceward_parked_lines on onceward_parked (cursor_name, key, sequence) where not alone;

create table onceward_dead (
  id integer primary key autoincrement,
  cursor_name text not null,
  position text not null,
  sequence integer not null,
  key text,
  alone integer not null check (alone in (0, 1)),
  raw blob not null,
  state text not null check (state in ('dead', 'redriven', 'dropped')),
  error_type text not null,
  error_message text not null,
  error_trace text not null,
  attempt_count integer not null,
  failures text not null,
  first_failed_at text not null,
  dead_at text not null,
  redrive_count integer not null default 0,
  changed_at text not null,
  changed_by text not null default '',
  reason text not null default '',
  unique (cursor_name, position)
) strict;
create index onceward_dead_by_state on onceward_dead (state, cursor_name, id);
