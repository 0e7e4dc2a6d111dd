-- What is known of every key, and of the steps inside its work.
-- until_*: the end of the lease while running, else the end of the outcome's life. Seconds since
-- boot decide within one boot; after another boot a lease is over, and a life is told by until_at.
-- No `in (…)` here: SQLite builds a table for each, at every row that is written.
create table onceward_outcomes (
  scope text not null,
  key text not null,
  fingerprint text,
  state text not null check (
    state = 'running' or state = 'done' or state = 'failed' or state = 'ambiguous'
    or state = 'free' or state = 'expired'
  ),
  fence integer not null,
  owner text not null,
  on_crash text not null check (on_crash = 'ambiguous' or on_crash = 'rerun'),
  claimed_at text not null,
  updated_at text not null,
  until_at text,
  until_boot text,
  until_seconds real,
  result text,
  failure text,
  note text,
  primary key (scope, key)
);
create index onceward_outcomes_until on onceward_outcomes (until_at)
  where until_at is not null and state <> 'running' and state <> 'ambiguous';
create table onceward_effects (
  scope text not null,
  key text not null,
  name text not null,
  state text not null check (
    state = 'intended' or state = 'done' or state = 'failed' or state = 'ambiguous'
    or state = 'free'
  ),
  fence integer not null,
  updated_at text not null,
  result text,
  failure text,
  note text,
  primary key (scope, key, name),
  foreign key (scope, key) references onceward_outcomes (scope, key) on delete cascade
);
