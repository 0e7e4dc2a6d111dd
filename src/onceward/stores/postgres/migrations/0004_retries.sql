-- What failed and waits: attempts by position, parked messages in line behind their key, dead letters.
create table onceward_retry_turns (
  cursor_name text primary key,
  last_sequence bigint not null
);

create table onceward_attempts (
  cursor_name text not null,
  position text not null,
  sequence bigint not null,
  attempt integer not null check (attempt > 0),
  due_at timestamptz not null,
  failures jsonb not null,
  first_failed_at timestamptz not null,
  primary key (cursor_name, position)
);

create table onceward_parked (
  id bigint generated always as identity primary key,
  cursor_name text not null,
  position text not null,
  sequence bigint not null,
  key text,
  alone boolean not null check (alone or key is not null),
  is_head boolean not null check (is_head or not alone),
  raw bytea not null,
  attempt integer not null check (attempt >= 0),
  due_at timestamptz,
  failures jsonb not null,
  first_failed_at timestamptz,
  parked_at timestamptz not null,
  unique (cursor_name, position),
  unique (cursor_name, sequence)
);
create unique index onceward_parked_one_head on onceward_parked (cursor_name, key) where is_head and not alone;
create index onceward_parked_heads on onceward_parked (cursor_name, sequence) where is_head;
create index onceward_parked_lines on onceward_parked (cursor_name, key, sequence) where not alone;

create table onceward_dead (
  id bigint generated always as identity primary key,
  cursor_name text not null,
  position text not null,
  sequence bigint not null,
  key text,
  alone boolean not null,
  raw bytea not null,
  state text not null check (state in ('dead', 'redriven', 'dropped')),
  error_type text not null,
  error_message text not null,
  error_trace text not null,
  attempt_count integer not null,
  failures jsonb not null,
  first_failed_at timestamptz not null,
  dead_at timestamptz not null,
  redrive_count integer not null default 0,
  changed_at timestamptz not null,
  changed_by text not null default '',
  reason text not null default '',
  unique (cursor_name, position)
);
create index onceward_dead_by_state on onceward_dead (state, cursor_name, id);
