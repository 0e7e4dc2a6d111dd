-- How far behind each cursor was when somebody last measured it, and the alerts that came of it.
-- A moment that decides something is kept three ways: boot seconds and boot id count while the machine runs,
-- wall time after it was started anew.
create table onceward_measures (
  cursor_name text primary key,
  position text,
  lag_messages integer,
  lag_seconds real,
  oldest_at text,
  held_back_by text,
  processed_count integer not null,
  rate_per_minute real,
  measured_at text not null,
  measured_seconds real not null,
  measured_boot text not null
) strict;

create table onceward_alerts (
  id text primary key,
  rule text not null,
  kind text not null,
  cursor_name text not null,
  state text not null check (state in ('pending', 'firing', 'cleared')),
  value real not null,
  threshold real not null,
  pending_at text not null,
  pending_seconds real not null,
  pending_boot text not null,
  fired_at text,
  fired_sent_at text,
  cleared_at text,
  cleared_sent_at text
) strict;
create unique index onceward_alerts_open on onceward_alerts (rule, cursor_name) where state <> 'cleared';
create index onceward_alerts_unsent on onceward_alerts (fired_at)
  where fired_at is not null and (fired_sent_at is null or (cleared_at is not null and cleared_sent_at is null));

-- What came lately is found without reading what is long past.
create index idx_cursor_history_steals on cursor_history (happened_at) where kind = 'steal';
create index onceward_dead_lately on onceward_dead (dead_at) where state = 'dead';
