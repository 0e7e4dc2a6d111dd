-- Everything the migrations make, in one place, to be read.

CREATE TABLE onceward_migrations (
  number integer primary key,
  name text not null,
  applied_at text not null
) strict
;

CREATE TABLE cursor_positions (
  cursor_name text primary key,
  last_position text,
  last_processed_at timestamptz default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  lease_owner text,
  lease_expires_at timestamptz,
  error_count integer default 0,
  paused boolean default false,
  metadata jsonb default '{}',
  lease_epoch integer not null default 0,
  steal_count integer not null default 0,
  processed_count integer not null default 0,
  rules_version integer not null default 1,
  created_at timestamptz not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  updated_at timestamptz not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  lease_expires_boot real,
  lease_boot_id text
);

CREATE INDEX idx_cursor_positions_lease_expires_at on cursor_positions (lease_expires_at);

CREATE TABLE cursor_history (
  id integer primary key autoincrement,
  cursor_name text not null,
  kind text not null check (
    kind in ('seek', 'pause', 'resume', 'steal', 'rollback', 'migration', 'undo')
  ),
  happened_at text not null,
  actor text not null,
  reason text not null,
  from_position text,
  to_position text,
  epoch integer not null,
  undoes integer references cursor_history (id)
) strict;

CREATE INDEX idx_cursor_history_cursor_name on cursor_history (cursor_name, id);

CREATE INDEX idx_cursor_history_undoes on cursor_history (undoes) where undoes is not null;

CREATE TRIGGER cursor_stolen after update of steal_count on cursor_positions
  when new.steal_count > old.steal_count
begin
  insert into cursor_history
    (cursor_name, kind, happened_at, actor, reason, from_position, to_position, epoch)
    values (new.cursor_name, 'steal', new.updated_at, new.lease_owner,
      'the lease of ' || old.lease_owner || ' ran out',
      old.last_position, new.last_position, new.lease_epoch);
end;

CREATE TABLE onceward_outcomes (
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

CREATE INDEX onceward_outcomes_until on onceward_outcomes (until_at)
  where until_at is not null and state <> 'running' and state <> 'ambiguous';

CREATE TABLE onceward_effects (
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

CREATE TABLE onceward_retry_turns (
  cursor_name text primary key,
  last_sequence integer not null
) strict;

CREATE TABLE onceward_attempts (
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

CREATE TABLE onceward_parked (
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

CREATE UNIQUE INDEX onceward_parked_one_head on onceward_parked (cursor_name, key) where is_head and not alone;

CREATE INDEX onceward_parked_heads on onceward_parked (cursor_name, sequence) where is_head;

CREATE INDEX onceward_parked_lines on onceward_parked (cursor_name, key, sequence) where not alone;

CREATE TABLE onceward_dead (
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

CREATE INDEX onceward_dead_by_state on onceward_dead (state, cursor_name, id);

CREATE TABLE onceward_dual_counters (
  dual_name text primary key,
  last_sequence integer not null
) strict;

CREATE TABLE onceward_dual_reads (
  dual_name text primary key,
  read_position integer not null,
  updated_at text not null
) strict;

CREATE TABLE onceward_dual_groups (
  dual_name text not null,
  group_name text not null,
  processed_position integer not null default 0,
  last_batch integer not null default 0,
  updated_at text not null,
  primary key (dual_name, group_name)
) strict;

CREATE TABLE onceward_dual_batches (
  dual_name text not null,
  group_name text not null,
  number integer not null,
  previous_position integer not null,
  position integer not null check (position > previous_position),
  output_position integer check (output_position between previous_position and position),
  items text not null,
  started_at text not null,
  primary key (dual_name, group_name)
) strict;

CREATE TABLE onceward_forgotten (
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

CREATE INDEX onceward_forgotten_by_move on onceward_forgotten (history_id, id);

CREATE TABLE onceward_dual_arrivals (
  dual_name text not null,
  group_name text not null,
  last_arrived integer not null,
  primary key (dual_name, group_name)
) strict;

CREATE TABLE onceward_measures (
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

CREATE TABLE onceward_alerts (
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

CREATE UNIQUE INDEX onceward_alerts_open on onceward_alerts (rule, cursor_name) where state <> 'cleared';

CREATE INDEX onceward_alerts_unsent on onceward_alerts (fired_at)
  where fired_at is not null and (fired_sent_at is null or (cleared_at is not null and cleared_sent_at is null));

CREATE INDEX idx_cursor_history_steals on cursor_history (happened_at) where kind = 'steal';

CREATE INDEX onceward_dead_lately on onceward_dead (dead_at) where state = 'dead';

CREATE INDEX onceward_forgotten_by_cursor on onceward_forgotten (cursor_name, id);
