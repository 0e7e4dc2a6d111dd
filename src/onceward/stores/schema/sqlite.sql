-- The initial schema on SQLite.
--
-- To change it after a release, add a migration for each engine and leave this file as it is:
--   schema/0002_name.sqlite.sql and schema/0002_name.postgres.sql, numbered without gaps.
-- A migration runs once, in one transaction together with the record that it ran; processes that start at once wait for
-- each other. One that begins with `-- Not transactional` runs on PostgreSQL statement by statement, outside a transaction, so
-- that it blocks no writer for long. Its statements must be idempotent, because after a crash they run again: build an
-- index on a table that may be large with `create index concurrently if not exists`; one that a crash left invalid is
-- dropped first. SQLite builds indexes in the transaction.

-- Cursors: position, lease and history of each.
-- The end of a lease is decided by lease_expires_boot, in seconds since the machine started, and
-- lease_boot_id; lease_expires_at is the same moment for people.
create table cursor_positions (
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
create index idx_cursor_positions_lease_expires_at on cursor_positions (lease_expires_at);

create table cursor_history (
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
create index idx_cursor_history_cursor_name on cursor_history (cursor_name, id);
create index idx_cursor_history_undoes on cursor_history (undoes) where undoes is not null;
create index idx_cursor_history_steals on cursor_history (happened_at) where kind = 'steal';
create index idx_cursor_history_passing on cursor_history (happened_at) where kind <> 'seek' and kind <> 'undo';

-- Record who took over from whom, in the statement that does it.
create trigger cursor_stolen after update of steal_count on cursor_positions
  when new.steal_count > old.steal_count
begin
  insert into cursor_history
    (cursor_name, kind, happened_at, actor, reason, from_position, to_position, epoch)
    values (new.cursor_name, 'steal', new.updated_at, new.lease_owner,
      'the lease of ' || old.lease_owner || ' expired',
      old.last_position, new.last_position, new.lease_epoch);
end;

-- Outcomes of idempotent calls by key, and the steps inside them.
-- until_*: expiry of the lease while running, else of the result. Seconds since boot decide within
-- one boot; after a reboot a lease has expired, and until_at decides for a result.
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
-- Separate indexes, so that pruning results does not scan many tombstones.
create index onceward_outcomes_ends on onceward_outcomes (state, until_at)
  where until_at is not null and state <> 'running' and state <> 'ambiguous';
-- The few unsettled keys among many settled ones.
create index onceward_outcomes_open on onceward_outcomes (state) where state = 'running' or state = 'ambiguous';

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

-- Failed messages: attempts by position, parked messages (failed, or blocked by one with the same key), dead letters.
-- A due time is kept three ways: boot seconds and boot id decide while the machine runs, wall time after
-- another boot.
create table onceward_retry_sequences (
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
-- The due heads of one cursor, and the next one: by boot seconds within a boot, else by wall time.
create index onceward_parked_due on onceward_parked (cursor_name, due_boot, due_seconds) where is_head;
create index onceward_parked_due_wall on onceward_parked (cursor_name, due_boot, due_at) where is_head;
create index onceward_parked_lines on onceward_parked (cursor_name, key, sequence) where not alone;

-- The dead-letter queue: messages of workers and chat messages whose retries are exhausted.
-- A worker's letter holds the message's bytes. A chat letter names its messages, first_seq to last_seq of a group,
-- and the delivery that failed last; its cursor_name is dispatch/GROUP and its position first_seq.
create table onceward_dead (
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
create index onceward_dead_by_state on onceward_dead (state, cursor_name, id);
-- Dead letters of all cursors, newest first; recent ones; and those that an operator has decided about, oldest first.
create index onceward_dead_newest on onceward_dead (state, id);
create index onceward_dead_lately on onceward_dead (dead_at) where state = 'dead';
create index onceward_dead_settled on onceward_dead (changed_at) where state <> 'dead';
create index onceward_dead_of_group on onceward_dead (group_name, last_seq) where state = 'dead' and group_name is not null;

-- Parked messages and attempts that a seek discarded, because its cursor will read them again; kept for an undo.
-- A row without bytes is not a parked message but the attempts of one that blocked its cursor.
create table onceward_discarded (
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
create index onceward_discarded_by_move on onceward_discarded (history_id, id);
-- A move deletes rows that were read since, whichever seek discarded them.
create index onceward_discarded_by_cursor on onceward_discarded (cursor_name, id);

-- Dual cursors: the arrival counter, the read position, each group's processed position, batches in flight.
create table onceward_dual_counters (
  dual_name text primary key,
  last_sequence integer not null
) strict;

create table onceward_dual_reads (
  dual_name text primary key,
  read_position integer not null,
  updated_at text not null
) strict;

create table onceward_dual_groups (
  dual_name text not null,
  group_name text not null,
  processed_position integer not null default 0,
  last_batch integer not null default 0,
  updated_at text not null,
  primary key (dual_name, group_name)
) strict;

create table onceward_dual_batches (
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

-- The latest arrival of each group, in a table of its own: it is written only while the
-- arrival counter is locked, so that drawing a number never waits for a transaction that has locked a group.
create table onceward_dual_arrivals (
  dual_name text not null,
  group_name text not null,
  last_arrived integer not null,
  primary key (dual_name, group_name)
) strict;

-- The lag of each cursor when it was last measured, and the alerts that follow from it.
-- A moment that decides something is kept three ways: boot seconds and boot id count while the machine runs,
-- wall time after another boot.
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
  measured_boot text not null,
  -- Since when the oldest message waits, in seconds of Unix time; null while none does.
  waiting_since real generated always as (
    iif(coalesce(lag_messages, 1) > 0, (julianday(measured_at) - 2440587.5) * 86400.0 - lag_seconds, null)
  ) virtual
) strict;

create index onceward_measures_waiting on onceward_measures (waiting_since, cursor_name)
  where waiting_since is not null;

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
create index onceward_alerts_cleared on onceward_alerts (cleared_at) where state = 'cleared';

-- History for the console: leases, rejected stale writes, samples of positions, workers, operators' actions.

-- Every grant of a lease, written by triggers, so that none is missed. The triggers fire on changes of owner or
-- epoch only, so checkpoints and renewals do not run them. Internal cursors, whose names begin with ~, have none.
create table onceward_grants (
  id integer primary key,
  cursor_name text not null,
  epoch integer not null,
  worker text not null,
  granted_at text not null,
  ended_at text,
  ending text check (ending = 'released' or ending = 'stolen' or ending = 'moved'),
  expired_at text
) strict;
create index onceward_grants_of_cursor on onceward_grants (cursor_name, id);
create index onceward_grants_ended on onceward_grants (ended_at) where ended_at is not null;

-- Rejected stale writes: one row per stale lease and kind of write.
create table onceward_rejected_writes (
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

-- Positions and lag of cursors, sampled.
create table onceward_samples (
  cursor_name text not null,
  taken_at text not null,
  position text,
  processed_count integer not null,
  lag_messages integer,
  lag_seconds real,
  primary key (cursor_name, taken_at)
) strict, without rowid;
create index onceward_samples_taken on onceward_samples (taken_at);

-- Worker processes. A regular stop is recorded; a worker without heartbeats may be dead.
create table onceward_workers (
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
create index onceward_workers_seen on onceward_workers (seen_at);

-- Operators' actions and their results.
create table onceward_audit (
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
create index onceward_audit_request on onceward_audit (request_id);

create trigger onceward_first_granted after insert on cursor_positions
  when new.lease_owner is not null and substr(new.cursor_name, 1, 1) <> '~'
begin
  insert into onceward_grants (cursor_name, epoch, worker, granted_at)
    values (new.cursor_name, new.lease_epoch, new.lease_owner, new.updated_at);
end;

create trigger onceward_granted after update of lease_owner, lease_epoch on cursor_positions
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

-- The agents' memory: entities, observations, relations, changes, and the word index.
-- Readers ignore rows whose `deleted_by` names a change; no row is ever removed.
create table memory_entities (
  id integer primary key autoincrement,
  name text not null unique,
  entity_type text not null,
  source text not null,
  run text,
  created_at text not null,
  deleted_by integer
) strict;

create table memory_observations (
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
create index memory_observations_deleted on memory_observations (deleted_by) where deleted_by is not null;

create table memory_relations (
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
create index memory_relations_to on memory_relations (to_id);
create index memory_relations_deleted on memory_relations (deleted_by) where deleted_by is not null;

create table memory_changes (
  id integer primary key autoincrement,
  action text not null check (action in ('deleted', 'restored')),
  entity_id integer not null references memory_entities (id),
  observation_id integer references memory_observations (id),
  relation_id integer references memory_relations (id),
  source text not null,
  run text,
  created_at text not null
) strict;
create index memory_changes_entity on memory_changes (entity_id);
create index memory_changes_relation on memory_changes (relation_id) where relation_id is not null;

-- One document for the name and type of each undeleted entity, and one for each undeleted observation.
create table memory_docs (
  id integer primary key autoincrement,
  entity_id integer not null references memory_entities (id),
  observation_id integer references memory_observations (id)
) strict;
create index memory_docs_entity on memory_docs (entity_id, observation_id);

-- Our own tokenizer makes the words, the same for both engines; SQLite's only splits at spaces.
create virtual table memory_words using fts5 (words, content = '', tokenize = 'ascii');
-- Words of deleted documents stay in the index until there are too many of them: searches join the documents, and then
-- the index is rebuilt. SQLite 3.40 cannot delete from a contentless index.
-- Each word of each document, for the rebuild.
create virtual table memory_words_places using fts5vocab (memory_words, instance);
-- How many documents the index holds, and how many of them are deleted.
create table memory_words_count (
  id integer primary key check (id = 1),
  live integer not null,
  gone integer not null
) strict;
insert into memory_words_count values (1, 0, 0);
create view memory_doc_words as select id, entity_id, observation_id, '' as words from memory_docs;
create trigger memory_doc_words_add instead of insert on memory_doc_words begin
  insert into memory_docs (entity_id, observation_id) values (new.entity_id, new.observation_id);
  insert into memory_words (rowid, words) values (last_insert_rowid(), new.words);
  update memory_words_count set live = live + 1;
end;
create trigger memory_docs_remove after delete on memory_docs begin
  update memory_words_count set live = live - 1, gone = gone + 1;
end;

-- Merges of entities whose names have the same canonical name: source, target, what the merge added, and the change
-- that deleted the source, so that a merge can be undone.
create table memory_merges (
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
create index memory_merges_merge on memory_merges (merge) where merge is not null;
create index memory_merges_target on memory_merges (target_id);

-- Chat: groups, messages, deliveries to agents, and their replies.
-- Texts are bytes, so that every character of a person's message is kept, U+0000 too.
create table dispatch_groups (
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
create index dispatch_groups_nudged on dispatch_groups (name) where is_nudged = 1;
create index dispatch_groups_agents on dispatch_groups (name) where agent is not null;

create table dispatch_messages (
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
create index dispatch_messages_group on dispatch_messages (group_name, seq);
create index dispatch_messages_changed on dispatch_messages (group_name, changed_seq);

-- Deliveries of messages to agents: positions, attempt and result.
create table dispatch_deliveries (
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
create index dispatch_deliveries_running on dispatch_deliveries (group_name) where state = 'running';

-- A delivery has the state of its dead letter, whichever statement decides about the letter.
create trigger onceward_dead_delivery after update of state, last_seq on onceward_dead
when old.state = 'dead' and new.source = 'chat' and (new.state <> old.state or new.last_seq <> old.last_seq) begin
  update dispatch_deliveries
  set state = new.state, last_seq = new.last_seq, ended_at = new.changed_at
  where id = new.delivery_id and state = 'dead';
end;

-- Replies of agents (a transactional outbox). A row is there before anything is sent; its state says whether people may have seen it.
create table dispatch_outbox (
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
create index dispatch_outbox_group on dispatch_outbox (group_name, seq);
create index dispatch_outbox_batch on dispatch_outbox (group_name, batch_number);
create index dispatch_outbox_open on dispatch_outbox (group_name, id) where state in ('pending', 'sending');

-- Compatibility view with the keys of an earlier router: the time read, and the time processed of each group.
create view router_state as
  select 'last_timestamp' as key, null as group_name, (
    select coalesce(m.sent_at, m.received_at) from dispatch_messages as m
    where m.seq <= r.read_position order by m.seq desc limit 1) as value
  from onceward_dual_reads as r where r.dual_name = 'dispatch'
  union all
  select 'last_agent_timestamp', g.group_name, (
    select coalesce(m.sent_at, m.received_at) from dispatch_messages as m
    where m.group_name = g.group_name and m.seq <= g.processed_position order by m.seq desc limit 1)
  from onceward_dual_groups as g where g.dual_name = 'dispatch';

-- Counts for polls of idle workers, whose cost must not depend on the number of parked messages and dead letters.

-- Numbers of parked messages and dead letters by cursor.
-- Maintained by triggers, in the transaction that changes the rows: a poll reads a number instead of counting.
-- A count of 0 has no row.
create table onceward_counts (
  kind text not null check (kind in ('parked', 'dead')),
  name text not null,
  number integer not null,
  primary key (kind, name)
) strict, without rowid;

create trigger onceward_parked_added after insert on onceward_parked begin
  insert into onceward_counts (kind, name, number) values ('parked', new.cursor_name, 1)
    on conflict (kind, name) do update set number = number + 1;
end;
create trigger onceward_parked_removed after delete on onceward_parked begin
  update onceward_counts set number = number - 1 where kind = 'parked' and name = old.cursor_name;
  delete from onceward_counts where kind = 'parked' and name = old.cursor_name and number = 0;
end;

create trigger onceward_dead_added after insert on onceward_dead when new.state = 'dead' begin
  insert into onceward_counts (kind, name, number) values ('dead', new.cursor_name, 1)
    on conflict (kind, name) do update set number = number + 1;
end;
create trigger onceward_dead_again after update of state on onceward_dead
when new.state = 'dead' and old.state <> 'dead' begin
  insert into onceward_counts (kind, name, number) values ('dead', new.cursor_name, 1)
    on conflict (kind, name) do update set number = number + 1;
end;
create trigger onceward_dead_settle after update of state on onceward_dead
when new.state <> 'dead' and old.state = 'dead' begin
  update onceward_counts set number = number - 1 where kind = 'dead' and name = old.cursor_name;
  delete from onceward_counts where kind = 'dead' and name = old.cursor_name and number = 0;
end;
create trigger onceward_dead_removed after delete on onceward_dead when old.state = 'dead' begin
  update onceward_counts set number = number - 1 where kind = 'dead' and name = old.cursor_name;
  delete from onceward_counts where kind = 'dead' and name = old.cursor_name and number = 0;
end;
