-- How far behind each cursor was when somebody last measured it, and the alerts that came of it.
create table onceward_measures (
  cursor_name text primary key,
  position text,
  lag_messages bigint,
  lag_seconds double precision,
  oldest_at timestamptz,
  held_back_by text,
  processed_count bigint not null,
  rate_per_minute double precision,
  measured_at timestamptz not null
);

create table onceward_alerts (
  id text primary key,
  rule text not null,
  kind text not null,
  cursor_name text not null,
  state text not null check (state in ('pending', 'firing', 'cleared')),
  value double precision not null,
  threshold double precision not null,
  pending_at timestamptz not null,
  fired_at timestamptz,
  fired_sent_at timestamptz,
  cleared_at timestamptz,
  cleared_sent_at timestamptz
);
create unique index onceward_alerts_open on onceward_alerts (rule, cursor_name) where state <> 'cleared';
create index onceward_alerts_unsent on onceward_alerts (fired_at)
  where fired_at is not null and (fired_sent_at is null or (cleared_at is not null and cleared_sent_at is null));

-- What came lately is found without reading what is long past.
create index idx_cursor_history_steals on cursor_history (happened_at) where kind = 'steal';
create index onceward_dead_lately on onceward_dead (dead_at) where state = 'dead';
