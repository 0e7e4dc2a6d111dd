-- Everything the migrations make, in one place, to be read.

CREATE TABLE onceward_migrations (
  number integer primary key,
  name text not null,
  applied_at text not null
) strict;

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

CREATE INDEX idx_cursor_history_steals on cursor_history (happened_at) where kind = 'steal';

CREATE INDEX idx_cursor_history_passing on cursor_history (happened_at) where kind <> 'seek' and kind <> 'undo';

CREATE TRIGGER cursor_stolen after update of steal_count on cursor_positions
  when new.steal_count > old.steal_count
begin
  insert into cursor_history
    (cursor_name, kind, happened_at, actor, reason, from_position, to_position, epoch)
    values (new.cursor_name, 'steal', new.updated_at, new.lease_owner,
      'the lease of ' || old.lease_owner || ' expired',
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

CREATE INDEX onceward_outcomes_ends on onceward_outcomes (state, until_at)
  where until_at is not null and state <> 'running' and state <> 'ambiguous';

CREATE INDEX onceward_outcomes_open on onceward_outcomes (state) where state = 'running' or state = 'ambiguous';

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

CREATE TABLE onceward_retry_sequences (
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

CREATE INDEX onceward_parked_due on onceward_parked (cursor_name, due_boot, due_seconds) where is_head;

CREATE INDEX onceward_parked_due_wall on onceward_parked (cursor_name, due_boot, due_at) where is_head;

CREATE INDEX onceward_parked_lines on onceward_parked (cursor_name, key, sequence) where not alone;

CREATE TABLE onceward_dead (
  id integer primary key autoincrement,
  source text not null default 'worker' check (source in ('worker', 'chat') and (source = 'chat') = (delivery_id is not null)),
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
  group_name text,
  first_seq integer,
  last_seq integer,
  delivery_id integer,
  unique (source, cursor_name, position)
) strict;

CREATE INDEX onceward_dead_by_state on onceward_dead (state, cursor_name, id);

CREATE INDEX onceward_dead_newest on onceward_dead (state, id);

CREATE INDEX onceward_dead_lately on onceward_dead (dead_at) where state = 'dead';

CREATE INDEX onceward_dead_settled on onceward_dead (changed_at) where state <> 'dead';

CREATE INDEX onceward_dead_of_group on onceward_dead (group_name, last_seq) where state = 'dead' and group_name is not null;

CREATE TABLE onceward_discarded (
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

CREATE INDEX onceward_discarded_by_move on onceward_discarded (history_id, id);

CREATE INDEX onceward_discarded_by_cursor on onceward_discarded (cursor_name, id);

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
  measured_boot text not null,
  -- Since when the oldest message waits, in seconds of Unix time; null while none does.
  waiting_since real generated always as (
    iif(coalesce(lag_messages, 1) > 0, (julianday(measured_at) - 2440587.5) * 86400.0 - lag_seconds, null)
  ) virtual
) strict;

CREATE INDEX onceward_measures_waiting on onceward_measures (waiting_since, cursor_name)
  where waiting_since is not null;

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

CREATE INDEX onceward_alerts_cleared on onceward_alerts (cleared_at) where state = 'cleared';

CREATE TABLE onceward_grants (
  id integer primary key,
  cursor_name text not null,
  epoch integer not null,
  worker text not null,
  granted_at text not null,
  ended_at text,
  ending text check (ending = 'released' or ending = 'stolen' or ending = 'moved'),
  expired_at text
) strict;

CREATE INDEX onceward_grants_of_cursor on onceward_grants (cursor_name, id);

CREATE INDEX onceward_grants_ended on onceward_grants (ended_at) where ended_at is not null;

CREATE TABLE onceward_rejected_writes (
  id integer primary key autoincrement,
  cursor_name text not null,
  happened_at text not null,
  worker text not null,
  epoch integer not null,
  current_epoch integer,
  current_owner text,
  what text not null,
  unique (cursor_name, epoch, what)
) strict;

CREATE TABLE onceward_samples (
  cursor_name text not null,
  taken_at text not null,
  position text,
  processed_count integer not null,
  lag_messages integer,
  lag_seconds real,
  primary key (cursor_name, taken_at)
) strict, without rowid;

CREATE INDEX onceward_samples_taken on onceward_samples (taken_at);

CREATE TABLE onceward_workers (
  worker text primary key,
  host text not null,
  pid integer not null,
  started_at text not null,
  seen_at text not null,
  seen_seconds real not null,
  seen_boot text not null,
  stopped_at text,
  consumers text not null,
  version text not null
) strict;

CREATE INDEX onceward_workers_seen on onceward_workers (seen_at);

CREATE TABLE onceward_audit (
  id integer primary key autoincrement,
  happened_at text not null,
  actor text not null,
  via text not null check (via = 'console' or via = 'cli'),
  action text not null,
  target text not null,
  request_id text,
  outcome text not null check (outcome = 'done' or outcome = 'refused'),
  details text not null,
  result text not null
) strict;

CREATE INDEX onceward_audit_request on onceward_audit (request_id);

CREATE TRIGGER onceward_first_granted after insert on cursor_positions
  when new.lease_owner is not null and substr(new.cursor_name, 1, 1) <> '~'
begin
  insert into onceward_grants (cursor_name, epoch, worker, granted_at)
    values (new.cursor_name, new.lease_epoch, new.lease_owner, new.updated_at);
end;

CREATE TRIGGER onceward_granted after update of lease_owner, lease_epoch on cursor_positions
  when (new.lease_owner is not old.lease_owner or new.lease_epoch <> old.lease_epoch)
    and substr(new.cursor_name, 1, 1) <> '~'
begin
  update onceward_grants set
      ended_at = new.updated_at,
      ending = case
        when new.lease_owner is null and new.lease_epoch > old.lease_epoch then 'moved'
        when new.lease_owner is null or new.lease_owner = old.lease_owner then 'released'
        else 'stolen'
      end,
      expired_at = iif(new.lease_owner <> old.lease_owner, min(old.lease_expires_at, new.updated_at), null)
    where id = (select max(id) from onceward_grants where cursor_name = new.cursor_name) and ended_at is null;
  insert into onceward_grants (cursor_name, epoch, worker, granted_at)
    select new.cursor_name, new.lease_epoch, new.lease_owner, new.updated_at where new.lease_owner is not null;
end;

CREATE TABLE memory_entities (
  id integer primary key autoincrement,
  name text not null unique,
  entity_type text not null,
  source text not null,
  run text,
  created_at text not null,
  deleted_by integer
) strict;

CREATE TABLE memory_observations (
  id integer primary key autoincrement,
  entity_id integer not null references memory_entities (id),
  fingerprint text not null,
  content text not null,
  kind text,
  ts text,
  mode text,
  repo text,
  branch text,
  source text not null,
  run text,
  created_at text not null,
  deleted_by integer,
  unique (entity_id, fingerprint)
) strict;

CREATE INDEX memory_observations_deleted on memory_observations (deleted_by) where deleted_by is not null;

CREATE TABLE memory_relations (
  id integer primary key autoincrement,
  from_id integer not null references memory_entities (id),
  to_id integer not null references memory_entities (id),
  relation_type text not null,
  source text not null,
  run text,
  created_at text not null,
  deleted_by integer,
  unique (from_id, to_id, relation_type)
) strict;

CREATE INDEX memory_relations_to on memory_relations (to_id);

CREATE INDEX memory_relations_deleted on memory_relations (deleted_by) where deleted_by is not null;

CREATE TABLE memory_changes (
  id integer primary key autoincrement,
  action text not null check (action in ('deleted', 'restored')),
  entity_id integer not null references memory_entities (id),
  observation_id integer references memory_observations (id),
  relation_id integer references memory_relations (id),
  source text not null,
  run text,
  created_at text not null
) strict;

CREATE INDEX memory_changes_entity on memory_changes (entity_id);

CREATE INDEX memory_changes_relation on memory_changes (relation_id) where relation_id is not null;

CREATE TABLE memory_docs (
  id integer primary key autoincrement,
  entity_id integer not null references memory_entities (id),
  observation_id integer references memory_observations (id)
) strict;

CREATE INDEX memory_docs_entity on memory_docs (entity_id, observation_id);

CREATE VIRTUAL TABLE memory_words using fts5 (words, content = '', tokenize = 'ascii');

CREATE VIRTUAL TABLE memory_words_places using fts5vocab (memory_words, instance);

CREATE TABLE memory_words_count (
  id integer primary key check (id = 1),
  live integer not null,
  gone integer not null
) strict;

CREATE VIEW memory_doc_words as select id, entity_id, observation_id, '' as words from memory_docs;

CREATE TRIGGER memory_doc_words_add instead of insert on memory_doc_words begin
  insert into memory_docs (entity_id, observation_id) values (new.entity_id, new.observation_id);
  insert into memory_words (rowid, words) values (last_insert_rowid(), new.words);
  update memory_words_count set live = live + 1;
end;

CREATE TRIGGER memory_docs_remove after delete on memory_docs begin
  update memory_words_count set live = live - 1, gone = gone + 1;
end;

CREATE TABLE memory_merges (
  id integer primary key autoincrement,
  -- The first row of the same merge; null in that row itself.
  merge integer references memory_merges (id),
  source_id integer not null references memory_entities (id),
  target_id integer not null references memory_entities (id),
  change_id integer not null references memory_changes (id),
  -- JSON: whether the target is new, fingerprints of observations, and relations by the names of their ends.
  added text not null,
  created_at text not null,
  undone_at text
) strict;

CREATE INDEX memory_merges_merge on memory_merges (merge) where merge is not null;

CREATE INDEX memory_merges_target on memory_merges (target_id);

CREATE TABLE dispatch_groups (
  name text primary key,
  channel text not null,
  command text not null,
  trigger_kind text not null check (trigger_kind in ('always', 'prefix', 'mention')),
  trigger_word text not null,
  workdir text,
  idle_seconds real not null,
  hard_seconds real not null,
  is_paused integer not null default 0,
  is_nudged integer not null default 0,
  called_seq integer not null default 0,
  attempt_count integer not null default 0,
  retry_at text,
  last_error text,
  agent text,
  created_at text not null,
  updated_at text not null
) strict;

CREATE INDEX dispatch_groups_nudged on dispatch_groups (name) where is_nudged = 1;

CREATE INDEX dispatch_groups_agents on dispatch_groups (name) where agent is not null;

CREATE TABLE dispatch_messages (
  channel text not null,
  group_name text not null,
  id text not null,
  seq integer not null unique,
  changed_seq integer not null,
  sender blob not null,
  body blob not null,
  sent_at text,
  received_at text not null,
  edited_at text,
  redriven_count integer not null default 0,
  primary key (channel, group_name, id)
) strict;

CREATE INDEX dispatch_messages_group on dispatch_messages (group_name, seq);

CREATE INDEX dispatch_messages_changed on dispatch_messages (group_name, changed_seq);

CREATE TABLE dispatch_deliveries (
  id integer primary key autoincrement,
  group_name text not null,
  batch_number integer not null,
  state text not null check (state in ('running', 'done', 'kept', 'rolled back', 'dead', 'redriven', 'dropped')),
  attempt integer not null,
  first_seq integer not null,
  last_seq integer not null,
  agent text,
  error text,
  started_at text not null,
  ended_at text,
  unique (group_name, batch_number)
) strict;

CREATE INDEX dispatch_deliveries_running on dispatch_deliveries (group_name) where state = 'running';

CREATE TRIGGER onceward_dead_delivery after update of state, last_seq on onceward_dead
when old.state = 'dead' and new.source = 'chat' and (new.state <> old.state or new.last_seq <> old.last_seq) begin
  update dispatch_deliveries
  set state = new.state, last_seq = new.last_seq, ended_at = new.changed_at
  where id = new.delivery_id and state = 'dead';
end;

CREATE TABLE dispatch_outbox (
  id integer primary key autoincrement,
  key text not null unique,
  group_name text not null,
  batch_number integer not null,
  position integer not null,
  body blob not null,
  state text not null check (state in ('pending', 'sending', 'sent', 'maybe sent', 'failed', 'cancelled')),
  seq integer unique,
  attempt_count integer not null default 0,
  retry_at text,
  error text,
  created_at text not null,
  sent_at text
) strict;

CREATE INDEX dispatch_outbox_group on dispatch_outbox (group_name, seq);

CREATE INDEX dispatch_outbox_batch on dispatch_outbox (group_name, batch_number);

CREATE INDEX dispatch_outbox_open on dispatch_outbox (group_name, id) where state in ('pending', 'sending');

CREATE VIEW router_state as
  select 'last_timestamp' as key, null as group_name, (
    select coalesce(m.sent_at, m.received_at) from dispatch_messages as m
    where m.seq <= r.read_position order by m.seq desc limit 1) as value
  from onceward_dual_reads as r where r.dual_name = 'dispatch'
  union all
  select 'last_agent_timestamp', g.group_name, (
    select coalesce(m.sent_at, m.received_at) from dispatch_messages as m
    where m.group_name = g.group_name and m.seq <= g.processed_position order by m.seq desc limit 1)
  from onceward_dual_groups as g where g.dual_name = 'dispatch';

CREATE TABLE onceward_counts (
  kind text not null check (kind in ('parked', 'dead')),
  name text not null,
  number integer not null,
  primary key (kind, name)
) strict, without rowid;

CREATE TRIGGER onceward_parked_added after insert on onceward_parked begin
  insert into onceward_counts (kind, name, number) values ('parked', new.cursor_name, 1)
    on conflict (kind, name) do update set number = number + 1;
end;

CREATE TRIGGER onceward_parked_removed after delete on onceward_parked begin
  update onceward_counts set number = number - 1 where kind = 'parked' and name = old.cursor_name;
  delete from onceward_counts where kind = 'parked' and name = old.cursor_name and number = 0;
end;

CREATE TRIGGER onceward_dead_added after insert on onceward_dead when new.state = 'dead' begin
  insert into onceward_counts (kind, name, number) values ('dead', new.cursor_name, 1)
    on conflict (kind, name) do update set number = number + 1;
end;

CREATE TRIGGER onceward_dead_again after update of state on onceward_dead
when new.state = 'dead' and old.state <> 'dead' begin
  insert into onceward_counts (kind, name, number) values ('dead', new.cursor_name, 1)
    on conflict (kind, name) do update set number = number + 1;
end;

CREATE TRIGGER onceward_dead_settle after update of state on onceward_dead
when new.state <> 'dead' and old.state = 'dead' begin
  update onceward_counts set number = number - 1 where kind = 'dead' and name = old.cursor_name;
  delete from onceward_counts where kind = 'dead' and name = old.cursor_name and number = 0;
end;

CREATE TRIGGER onceward_dead_removed after delete on onceward_dead when old.state = 'dead' begin
  update onceward_counts set number = number - 1 where kind = 'dead' and name = old.cursor_name;
  delete from onceward_counts where kind = 'dead' and name = old.cursor_name and number = 0;
end;
