-- The initial schema on PostgreSQL: tables, and the functions that check fencing tokens.
--
-- To change it after a release, add a migration for each engine and leave this file as it is:
--   schema/0002_name.sqlite.sql and schema/0002_name.postgres.sql, numbered without gaps.
-- A migration runs once, in one transaction together with the record that it ran; processes that start at once wait for
-- each other. One that begins with `-- Not transactional` runs on PostgreSQL statement by statement, outside a transaction, so
-- that it blocks no writer for long. Its statements must be idempotent, because after a crash they run again: build an
-- index on a table that may be large with `create index concurrently if not exists`; one that a crash left invalid is
-- dropped first. SQLite builds indexes in the transaction.

-- The clock of all our statements; tests replace this function.
create function onceward_now() returns timestamptz
  language sql volatile
  as $$ select clock_timestamp() $$;

-- Cursors: position, lease and history of each.
-- An existing table with these columns is kept, with its rows.
create table if not exists cursor_positions (
  cursor_name text primary key,
  last_position text,
  last_processed_at timestamptz default now(),
  lease_owner text,
  lease_expires_at timestamptz,
  error_count integer default 0,
  paused boolean default false,
  metadata jsonb default '{}'
);
create index if not exists idx_cursor_positions_lease_expires_at
  on cursor_positions (lease_expires_at);
alter table cursor_positions
  add column lease_epoch bigint not null default 0,
  add column steal_count bigint not null default 0,
  add column processed_count bigint not null default 0,
  add column rules_version integer not null default 1,
  add column created_at timestamptz not null default onceward_now(),
  add column updated_at timestamptz not null default onceward_now();

create table cursor_history (
  id bigint generated always as identity primary key,
  cursor_name text not null,
  kind text not null check (
    kind in ('seek', 'pause', 'resume', 'steal', 'rollback', 'migration', 'undo')
  ),
  happened_at timestamptz not null default onceward_now(),
  actor text not null,
  reason text not null,
  from_position text,
  to_position text,
  epoch bigint not null,
  undoes bigint references cursor_history (id)
);
create index idx_cursor_history_cursor_name on cursor_history (cursor_name, id);
create index idx_cursor_history_undoes on cursor_history (undoes) where undoes is not null;
create index idx_cursor_history_steals on cursor_history (happened_at) where kind = 'steal';
create index idx_cursor_history_passing on cursor_history (happened_at) where kind <> 'seek' and kind <> 'undo';

-- A time as text, the same as on SQLite.
create function onceward_time_text(moment timestamptz) returns text
  language sql immutable
  as $$ select to_char(moment at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') $$;

-- Whether the lease has not expired; a null end is expired.
create function onceward_cursor_is_held(held cursor_positions) returns boolean
  language sql volatile
  as $$
    select held.lease_owner is not null
      and held.lease_expires_at is not null
      and held.lease_expires_at >= onceward_now()
  $$;

-- The advisory lock by which the backends that guard a cursor can be found.
create function onceward_cursor_key(_name text) returns bigint
  language sql immutable
  as $$ select hashtextextended('onceward cursor ' || _name, 0) $$;

-- Raise, so that statements already sent after this one, including a commit, have no effect.
create function onceward_lease_lost(_name text, _epoch bigint) returns void
  language plpgsql
  as $$
    begin
      raise exception 'the lease of cursor % is lost', _name using
        errcode = 'OW001',
        detail = json_build_object(
          'cursor', _name,
          'held_epoch', _epoch,
          'current_epoch', (select lease_epoch from cursor_positions where cursor_name = _name)
        )::text;
    end
  $$;

-- Lock a cursor against transactions that guard it. They get a second to end; then their backends are
-- terminated, because a client that is frozen inside its transaction would keep the lock indefinitely.
create function onceward_cursor_lock(_name text) returns cursor_positions
  language plpgsql
  set lock_timeout = '1s'
  as $$
    declare
      locked cursor_positions;
    begin
      begin
        select * into locked from cursor_positions where cursor_name = _name for update;
      exception when lock_not_available then
        perform pg_terminate_backend(pid, 5000)
          from pg_locks
          where locktype = 'advisory' and objsubid = 1 and granted and pid <> pg_backend_pid()
            and database = (select oid from pg_database where datname = current_database())
            and (classid::bigint << 32 | objid::bigint) = onceward_cursor_key(_name);
        select * into locked from cursor_positions where cursor_name = _name for update;
      end;
      return locked;
    end
  $$;

-- A worker that froze inside its transaction keeps the locks it took there, and the one that takes its
-- cursor over would wait for them. Every such transaction is marked with a shared advisory lock, and
-- the worker that takes over ends the marked ones; while the cursor is granted, no transaction can be marked.

-- Mark this transaction as work on a cursor, or raise if another worker holds the cursor.
create function onceward_cursor_mark(_name text, _worker text, _epoch bigint) returns void
  language plpgsql
  as $$
    begin
      perform pg_advisory_xact_lock_shared(onceward_cursor_key(_name));
      perform 1 from cursor_positions
        where cursor_name = _name and lease_owner = _worker and lease_epoch = _epoch;
      if not found then
        perform onceward_lease_lost(_name, _epoch);
      end if;
    end
  $$;

-- End the marked transactions of a cursor; no other can be marked until this one ends. A backend of
-- another role that we may not end is left alone: its writes are rejected in any case.
create function onceward_cursor_end_marked(_name text) returns void
  language plpgsql
  as $$
    declare
      _pid integer;
    begin
      for _attempt in 1..10 loop
        if pg_try_advisory_xact_lock(onceward_cursor_key(_name)) then
          return;
        end if;
        for _pid in
          select pid from pg_locks
            where locktype = 'advisory' and objsubid = 1 and granted and pid <> pg_backend_pid()
              and database = (select oid from pg_database where datname = current_database())
              and (classid::bigint << 32 | objid::bigint) = onceward_cursor_key(_name)
        loop
          begin
            perform pg_terminate_backend(_pid, 1000);
          exception when insufficient_privilege then
            return;
          end;
        end loop;
      end loop;
    end
  $$;

-- Grant the lease, or return no row. Locks only what it may take, and checks again when it holds the lock.
create function onceward_cursor_acquire(
  _name text, _worker text, _seconds double precision, _version integer
) returns setof cursor_positions
  language plpgsql
  as $$
    declare
      old cursor_positions;
      steals integer;
    begin
      select * into old from cursor_positions where cursor_name = _name;
      if not found then
        insert into cursor_positions (cursor_name, last_processed_at, rules_version)
          values (_name, onceward_now(), _version)
          on conflict do nothing;
      elsif old.paused or (onceward_cursor_is_held(old) and old.lease_owner <> _worker) then
        return;
      end if;
      old := onceward_cursor_lock(_name);
      if old.paused or (onceward_cursor_is_held(old) and old.lease_owner <> _worker) then
        return;
      end if;
      perform onceward_cursor_end_marked(_name);
      steals := (old.lease_owner is not null and old.lease_owner <> _worker)::integer;
      return query update cursor_positions set
          lease_owner = _worker,
          lease_expires_at = onceward_now() + make_interval(secs => _seconds),
          lease_epoch = lease_epoch + 1,
          steal_count = steal_count + steals,
          updated_at = onceward_now()
        where cursor_name = _name
        returning *;
      if steals > 0 then
        insert into cursor_history
          (cursor_name, kind, actor, reason, from_position, to_position, epoch)
          values (_name, 'steal', _worker, 'the lease of ' || old.lease_owner || ' expired',
            old.last_position, old.last_position, old.lease_epoch + 1);
      end if;
    end
  $$;

-- Keep the lease from changing hands while this transaction is open, or raise. Renewals and pauses
-- change no key, so this does not block them.
create function onceward_cursor_guard(_name text, _worker text, _epoch bigint) returns void
  language plpgsql
  as $$
    begin
      perform pg_advisory_xact_lock_shared(onceward_cursor_key(_name));
      perform 1 from cursor_positions
        where cursor_name = _name and lease_owner = _worker and lease_epoch = _epoch
        for key share;
      if not found then
        perform onceward_lease_lost(_name, _epoch);
      end if;
    end
  $$;

-- Move the position and renew the lease, or raise. A lease that was renewed a moment ago is left as it
-- is: its column has an index, and an update that changes none of those is cheaper by far.
create function onceward_cursor_checkpoint(
  _name text, _worker text, _epoch bigint, _position text, _count bigint, _seconds double precision
) returns void
  language plpgsql
  as $$
    declare
      _now timestamptz := onceward_now();
    begin
      update cursor_positions set
          last_position = _position,
          last_processed_at = _now,
          error_count = 0,
          processed_count = processed_count + _count,
          lease_expires_at = case
            when paused or lease_expires_at > _now + make_interval(secs => 0.95 * _seconds)
              then lease_expires_at
            else _now + make_interval(secs => _seconds) end,
          updated_at = _now
        where cursor_name = _name and lease_owner = _worker and lease_epoch = _epoch;
      if not found then
        perform onceward_lease_lost(_name, _epoch);
      end if;
    end
  $$;

-- Outcomes of idempotent calls by key, and the steps inside them.
-- until_at: expiry of the lease while running, else of the result.
-- Numbers keys in the order of their first claim.
create sequence onceward_outcomes_arrival;
create table onceward_outcomes (
  scope text not null,
  key text not null,
  fingerprint text,
  state text not null
    check (state in ('running', 'done', 'failed', 'ambiguous', 'free', 'expired')),
  fence bigint not null,
  owner text not null,
  on_crash text not null check (on_crash in ('ambiguous', 'rerun')),
  claimed_at timestamptz not null,
  updated_at timestamptz not null,
  until_at timestamptz,
  result text,
  failure text,
  note text,
  sequence bigint default nextval('onceward_outcomes_arrival'),
  primary key (scope, key)
);
alter sequence onceward_outcomes_arrival owned by onceward_outcomes.sequence;
create unique index onceward_outcomes_sequence on onceward_outcomes (sequence);
-- The few unsettled keys among many settled ones.
create index onceward_outcomes_open on onceward_outcomes (state, sequence)
  where state = 'running' or state = 'ambiguous';
-- Separate indexes, so that pruning results does not scan many tombstones.
create index onceward_outcomes_ends on onceward_outcomes (state, until_at)
  where until_at is not null and state <> 'running' and state <> 'ambiguous';

create table onceward_effects (
  scope text not null,
  key text not null,
  name text not null,
  state text not null check (state in ('intended', 'done', 'failed', 'ambiguous', 'free')),
  fence bigint not null,
  updated_at timestamptz not null,
  result text,
  failure text,
  note text,
  primary key (scope, key, name),
  foreign key (scope, key) references onceward_outcomes (scope, key) on delete cascade
);
-- A time as text that parses to the same time.
create function onceward_text(moment timestamptz) returns text
  language sql immutable
  as $$ select to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') $$;

-- Failed messages: attempts by position, parked messages (failed, or blocked by one with the same key), dead letters.
create table onceward_retry_sequences (
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
-- The due heads of one cursor, and the next one.
create index onceward_parked_due on onceward_parked (cursor_name, due_at nulls first, sequence) where is_head;
create index onceward_parked_lines on onceward_parked (cursor_name, key, sequence) where not alone;

-- The dead-letter queue: messages of workers and chat messages whose retries are exhausted.
-- A worker's letter holds the message's bytes. A chat letter names its messages, first_seq to last_seq of a group,
-- and the delivery that failed last; its cursor_name is dispatch/GROUP and its position first_seq.
create table onceward_dead (
  id bigint generated always as identity primary key,
  source text not null default 'worker' check (source in ('worker', 'chat') and (source = 'chat') = (delivery_id is not null)),
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
  group_name text,
  first_seq bigint,
  last_seq bigint,
  delivery_id bigint,
  unique (source, cursor_name, position)
);
create index onceward_dead_by_state on onceward_dead (state, cursor_name, id);
-- Dead letters of all cursors, newest first; recent ones; and those that an operator has decided about, oldest first.
create index onceward_dead_newest on onceward_dead (state, id);
create index onceward_dead_lately on onceward_dead (dead_at) where state = 'dead';
create index onceward_dead_settled on onceward_dead (changed_at) where state <> 'dead';
create index onceward_dead_of_group on onceward_dead (group_name, last_seq) where state = 'dead' and group_name is not null;

-- Parked messages and attempts that a seek discarded, because its cursor will read them again; kept for an undo.
-- A row without bytes is not a parked message but the attempts of one that blocked its cursor.
create table onceward_discarded (
  id bigint generated always as identity primary key,
  history_id bigint not null references cursor_history (id),
  cursor_name text not null,
  position text not null,
  sequence bigint not null,
  key text,
  alone boolean not null,
  raw bytea,
  attempt integer not null,
  due_at timestamptz,
  failures jsonb not null,
  first_failed_at timestamptz,
  parked_at timestamptz
);
create index onceward_discarded_by_move on onceward_discarded (history_id, id);
-- A move deletes rows that were read since, whichever seek discarded them.
create index onceward_discarded_by_cursor on onceward_discarded (cursor_name, id);

-- Lock a cursor's retries until the transaction ends, and return the next sequence number. A worker locks the
-- cursor first, as a move does: in the other order the two could deadlock. Its transaction is marked
-- like a guard, so that a client that is frozen inside its transaction does not block a move indefinitely.
create function onceward_retry_sequence_next(_name text, _is_worker boolean) returns bigint
  language plpgsql
  as $$
    declare
      given bigint;
    begin
      if _is_worker then
        perform pg_advisory_xact_lock_shared(onceward_cursor_key(_name));
        perform 1 from cursor_positions where cursor_name = _name for key share;
      end if;
      insert into onceward_retry_sequences as s (cursor_name, last_sequence) values (_name, 1)
        on conflict (cursor_name) do update set last_sequence = s.last_sequence + 1
        returning s.last_sequence into given;
      return given;
    end
  $$;

-- Dual cursors: the arrival counter, the read position, each group's processed position, batches in flight.
create table onceward_dual_counters (
  dual_name text primary key,
  last_sequence bigint not null
);

create table onceward_dual_reads (
  dual_name text primary key,
  read_position bigint not null,
  updated_at timestamptz not null
);

create table onceward_dual_groups (
  dual_name text not null,
  group_name text not null,
  processed_position bigint not null default 0,
  last_batch bigint not null default 0,
  updated_at timestamptz not null,
  primary key (dual_name, group_name)
);

create table onceward_dual_batches (
  dual_name text not null,
  group_name text not null,
  number bigint not null,
  previous_position bigint not null,
  position bigint not null check (position > previous_position),
  output_position bigint check (output_position between previous_position and position),
  items text not null,
  started_at timestamptz not null,
  primary key (dual_name, group_name)
);

-- The latest arrival of each group, in a table of its own: it is written only while the
-- arrival counter is locked, so that drawing a number never waits for a transaction that has locked a group.
create table onceward_dual_arrivals (
  dual_name text not null,
  group_name text not null,
  last_arrived bigint not null,
  primary key (dual_name, group_name)
);

-- The lag of each cursor when it was last measured, and the alerts that follow from it.
create table onceward_measures (
  cursor_name text primary key,
  position text,
  lag_messages bigint,
  lag_seconds double precision,
  oldest_at timestamptz,
  held_back_by text,
  processed_count bigint not null,
  rate_per_minute double precision,
  measured_at timestamptz not null,
  -- Since when the oldest message waits, in seconds of Unix time; null while none does.
  waiting_since double precision generated always as (
    case when coalesce(lag_messages, 1) > 0
      then extract(epoch from measured_at at time zone 'UTC')::double precision - lag_seconds end
  ) stored
);

create index onceward_measures_waiting on onceward_measures (waiting_since, cursor_name)
  where waiting_since is not null;

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
create index onceward_alerts_cleared on onceward_alerts (cleared_at) where state = 'cleared';

-- History for the console: leases, rejected stale writes, samples of positions, workers, operators' actions.

-- Every grant of a lease, written by triggers, so that none is missed. The triggers fire on changes of owner or
-- epoch only, so checkpoints and renewals do not run them. Internal cursors, whose names begin with ~, have none.
create table onceward_grants (
  id bigint generated always as identity primary key,
  cursor_name text not null,
  epoch bigint not null,
  worker text not null,
  granted_at timestamptz not null,
  ended_at timestamptz,
  ending text check (ending in ('released', 'stolen', 'moved')),
  expired_at timestamptz
);
create index onceward_grants_of_cursor on onceward_grants (cursor_name, id);
create index onceward_grants_ended on onceward_grants (ended_at) where ended_at is not null;

-- The caller has locked the cursor's row: grants of one cursor are written one after the other, and no
-- other lock is waited for.
create function onceward_note_grant() returns trigger
  language plpgsql
  as $$
    declare
      _now timestamptz := onceward_now();
    begin
      if tg_op = 'UPDATE' then
        update onceward_grants set
            ended_at = _now,
            ending = case
              when new.lease_owner is null and new.lease_epoch > old.lease_epoch then 'moved'
              when new.lease_owner is null or new.lease_owner = old.lease_owner then 'released'
              else 'stolen'
            end,
            expired_at = case
              when new.lease_owner <> old.lease_owner and old.lease_expires_at is not null
                then least(old.lease_expires_at, _now)
            end
          where id = (select max(id) from onceward_grants where cursor_name = new.cursor_name)
            and ended_at is null;
      end if;
      if new.lease_owner is not null then
        insert into onceward_grants (cursor_name, epoch, worker, granted_at)
          values (new.cursor_name, new.lease_epoch, new.lease_owner, _now);
      end if;
      return null;
    end
  $$;

-- Rejected stale writes: one row per stale lease and kind of write.
create table onceward_rejected_writes (
  id bigint generated always as identity primary key,
  cursor_name text not null,
  happened_at timestamptz not null,
  worker text not null,
  epoch bigint not null,
  current_epoch bigint,
  current_owner text,
  what text not null,
  unique (cursor_name, epoch, what)
);

-- Positions and lag of cursors, sampled.
create table onceward_samples (
  cursor_name text not null,
  taken_at timestamptz not null,
  position text,
  processed_count bigint not null,
  lag_messages bigint,
  lag_seconds double precision,
  primary key (cursor_name, taken_at)
);
create index onceward_samples_taken on onceward_samples (taken_at);

-- Worker processes. A regular stop is recorded; a worker without heartbeats may be dead.
create table onceward_workers (
  worker text primary key,
  host text not null,
  pid bigint not null,
  started_at timestamptz not null,
  seen_at timestamptz not null,
  stopped_at timestamptz,
  consumers text not null,
  version text not null
);
create index onceward_workers_seen on onceward_workers (seen_at);

-- Operators' actions and their results.
create table onceward_audit (
  id bigint generated always as identity primary key,
  happened_at timestamptz not null,
  actor text not null,
  via text not null check (via in ('console', 'cli')),
  action text not null,
  target text not null,
  request_id text,
  outcome text not null check (outcome in ('done', 'refused')),
  details text not null,
  result text not null
);
create index onceward_audit_request on onceward_audit (request_id);

-- Last, so that cursors are locked only briefly.
create trigger onceward_first_granted after insert on cursor_positions
  for each row when (new.lease_owner is not null and not starts_with(new.cursor_name, '~'))
  execute function onceward_note_grant();

create trigger onceward_granted after update of lease_owner, lease_epoch on cursor_positions
  for each row when (
    (new.lease_owner is distinct from old.lease_owner or new.lease_epoch <> old.lease_epoch)
    and not starts_with(new.cursor_name, '~')
  )
  execute function onceward_note_grant();

insert into onceward_grants (cursor_name, epoch, worker, granted_at)
  select cursor_name, lease_epoch, lease_owner, updated_at from cursor_positions
    where lease_owner is not null and not starts_with(cursor_name, '~')
    order by cursor_name;

-- The agents' memory: entities, observations, relations, changes, and the word index.
-- Readers ignore rows whose `deleted_by` names a change; no row is ever removed.
create table memory_entities (
  id bigint generated by default as identity primary key,
  name text collate "C" not null unique,
  entity_type text not null,
  source text not null,
  run text,
  created_at timestamptz not null,
  deleted_by bigint
);

create table memory_observations (
  id bigint generated by default as identity primary key,
  entity_id bigint not null references memory_entities (id),
  fingerprint text collate "C" not null,
  content text not null,
  kind text,
  ts text,
  mode text,
  repo text,
  branch text,
  source text not null,
  run text,
  created_at timestamptz not null,
  deleted_by bigint,
  unique (entity_id, fingerprint)
);
create index memory_observations_deleted on memory_observations (deleted_by) where deleted_by is not null;

create table memory_relations (
  id bigint generated by default as identity primary key,
  from_id bigint not null references memory_entities (id),
  to_id bigint not null references memory_entities (id),
  relation_type text collate "C" not null,
  source text not null,
  run text,
  created_at timestamptz not null,
  deleted_by bigint,
  unique (from_id, to_id, relation_type)
);
create index memory_relations_to on memory_relations (to_id);
create index memory_relations_deleted on memory_relations (deleted_by) where deleted_by is not null;

create table memory_changes (
  id bigint generated by default as identity primary key,
  action text not null check (action in ('deleted', 'restored')),
  entity_id bigint not null references memory_entities (id),
  observation_id bigint references memory_observations (id),
  relation_id bigint references memory_relations (id),
  source text not null,
  run text,
  created_at timestamptz not null
);
create index memory_changes_entity on memory_changes (entity_id);
create index memory_changes_relation on memory_changes (relation_id) where relation_id is not null;

-- One document for the name and type of each undeleted entity, and one for each undeleted observation.
-- Our own tokenizer makes the words, the same for both engines; they are stored as a tsvector.
create table memory_docs (
  id bigint generated by default as identity primary key,
  entity_id bigint not null references memory_entities (id),
  observation_id bigint references memory_observations (id),
  words tsvector not null
);
create index memory_docs_entity on memory_docs (entity_id, observation_id);
create index memory_docs_words on memory_docs using gin (words) with (fastupdate = off);

-- Finds the newest documents that match. Planned again at every call: a frequent word is found by scanning
-- the newest documents, a rare one by the index of words, so the best plan depends on the words.
create function memory_find(question tsquery, top bigint, ranges json, is_begun boolean, most bigint)
  returns table (id bigint, entity_id bigint, observation_id bigint)
  language plpgsql stable rows 20
  as $$
  begin
    if is_begun and ranges is null then
      -- The frequency of a prefix is unknown, so all matches are found by the index of words.
      return query
        with found as materialized (
          select d.id, d.entity_id, d.observation_id from memory_docs as d where d.words @@ question and d.id < top)
        select f.id, f.entity_id, f.observation_id from found as f order by f.id desc limit most;
    elsif ranges is null then
      return query execute format(
        'select d.id, d.entity_id, d.observation_id from memory_docs as d'
        ' where d.words @@ %L::tsquery and d.id < %s order by d.id desc limit %s', question, top, most);
    else
      return query execute format(
        'select d.id, d.entity_id, d.observation_id from memory_docs as d'
        ' join memory_entities as e on e.id = d.entity_id'
        ' where d.words @@ %L::tsquery and d.id < %s and exists ('
        '   select from json_to_recordset(%L::json) as r (low text, high text)'
        '   where e.name >= r.low collate "C" and e.name < r.high collate "C")'
        ' order by d.id desc limit %s', question, top, ranges, most);
    end if;
  end
  $$;

-- Merges of entities whose names have the same canonical name: source, target, what the merge added, and the change
-- that deleted the source, so that a merge can be undone.
create table memory_merges (
  id bigint generated by default as identity primary key,
  -- The first row of the same merge; null in that row itself.
  merge bigint references memory_merges (id),
  source_id bigint not null references memory_entities (id),
  target_id bigint not null references memory_entities (id),
  change_id bigint not null references memory_changes (id),
  -- JSON: whether the target is new, fingerprints of observations, and relations by the names of their ends.
  added text not null,
  created_at timestamptz not null,
  undone_at timestamptz
);
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
  idle_seconds double precision not null,
  hard_seconds double precision not null,
  is_paused boolean not null default false,
  is_nudged boolean not null default false,
  called_seq bigint not null default 0,
  attempt_count integer not null default 0,
  retry_at timestamptz,
  last_error text,
  agent text,
  created_at timestamptz not null,
  updated_at timestamptz not null
);
create index dispatch_groups_nudged on dispatch_groups (name) where is_nudged;
create index dispatch_groups_agents on dispatch_groups (name) where agent is not null;

create table dispatch_messages (
  channel text not null,
  group_name text not null,
  id text not null,
  seq bigint not null unique,
  changed_seq bigint not null,
  sender bytea not null,
  body bytea not null,
  sent_at text,
  received_at timestamptz not null,
  edited_at timestamptz,
  redriven_count integer not null default 0,
  primary key (channel, group_name, id)
);
create index dispatch_messages_group on dispatch_messages (group_name, seq);
create index dispatch_messages_changed on dispatch_messages (group_name, changed_seq);

-- Deliveries of messages to agents: positions, attempt and result.
create table dispatch_deliveries (
  id bigint generated always as identity primary key,
  group_name text not null,
  batch_number bigint not null,
  state text not null check (state in ('running', 'done', 'kept', 'rolled back', 'dead', 'redriven', 'dropped')),
  attempt integer not null,
  first_seq bigint not null,
  last_seq bigint not null,
  agent text,
  error text,
  started_at timestamptz not null,
  ended_at timestamptz,
  unique (group_name, batch_number)
);
create index dispatch_deliveries_running on dispatch_deliveries (group_name) where state = 'running';

-- A delivery has the state of its dead letter, whichever statement decides about the letter.
create function onceward_dead_delivery() returns trigger
  language plpgsql
  as $$
    begin
      update dispatch_deliveries
        set state = new.state, last_seq = new.last_seq, ended_at = new.changed_at
        where id = new.delivery_id and state = 'dead';
      return null;
    end
  $$;
create trigger onceward_dead_delivery after update of state, last_seq on onceward_dead
  for each row when (old.state = 'dead' and new.source = 'chat' and (new.state <> old.state or new.last_seq <> old.last_seq))
  execute function onceward_dead_delivery();

-- Replies of agents (a transactional outbox). A row is there before anything is sent; its state says whether people may have seen it.
create table dispatch_outbox (
  id bigint generated always as identity primary key,
  key text not null unique,
  group_name text not null,
  batch_number bigint not null,
  position bigint not null,
  body bytea not null,
  state text not null check (state in ('pending', 'sending', 'sent', 'maybe sent', 'failed', 'cancelled')),
  seq bigint unique,
  attempt_count integer not null default 0,
  retry_at timestamptz,
  error text,
  created_at timestamptz not null,
  sent_at timestamptz
);
create index dispatch_outbox_group on dispatch_outbox (group_name, seq);
create index dispatch_outbox_batch on dispatch_outbox (group_name, batch_number);
create index dispatch_outbox_open on dispatch_outbox (group_name, id) where state in ('pending', 'sending');

-- Compatibility view with the keys of an earlier router: the time read, and the time processed of each group.
create view router_state as
  select 'last_timestamp' as key, null as group_name, (
    select coalesce(m.sent_at, onceward_time_text(m.received_at)) from dispatch_messages as m
    where m.seq <= r.read_position order by m.seq desc limit 1) as value
  from onceward_dual_reads as r where r.dual_name = 'dispatch'
  union all
  select 'last_agent_timestamp', g.group_name, (
    select coalesce(m.sent_at, onceward_time_text(m.received_at)) from dispatch_messages as m
    where m.group_name = g.group_name and m.seq <= g.processed_position order by m.seq desc limit 1)
  from onceward_dual_groups as g where g.dual_name = 'dispatch';

-- Counts for polls of idle workers, whose cost must not depend on the number of parked messages and dead letters.

-- Numbers of parked messages and dead letters by cursor.
-- Maintained by triggers, in the transaction that changes the rows: a poll reads a number instead of counting.
-- A count of 0 has no row.
create table onceward_counts (
  kind text not null check (kind in ('parked', 'dead')),
  name text not null,
  number bigint not null,
  primary key (kind, name)
);

-- Add the rows that a statement changed, in the order of names, so that two transactions cannot wait for each other.
create function onceward_count(_kind text, _names text[], _by integer) returns void
  language plpgsql
  as $$
    begin
      insert into onceward_counts as counted (kind, name, number)
        select _kind, each, _by * count(*) from unnest(_names) as each group by each order by each
        on conflict (kind, name) do update set number = counted.number + excluded.number;
      if _by < 0 then
        delete from onceward_counts where kind = _kind and name = any (_names) and number = 0;
      end if;
    end
  $$;

create function onceward_count_parked() returns trigger
  language plpgsql
  as $$
    begin
      perform onceward_count('parked', array(select cursor_name from changed),
        case when tg_op = 'INSERT' then 1 else -1 end);
      return null;
    end
  $$;

create function onceward_count_dead() returns trigger
  language plpgsql
  as $$
    begin
      if tg_op <> 'DELETE' then
        perform onceward_count('dead', array(select cursor_name from after where state = 'dead'), 1);
      end if;
      if tg_op <> 'INSERT' then
        perform onceward_count('dead', array(select cursor_name from before where state = 'dead'), -1);
      end if;
      return null;
    end
  $$;

-- Triggers first: each locks its table against writers until all that is there has been counted.
create trigger onceward_parked_added after insert on onceward_parked
  referencing new table as changed for each statement execute function onceward_count_parked();
create trigger onceward_parked_removed after delete on onceward_parked
  referencing old table as changed for each statement execute function onceward_count_parked();
create trigger onceward_dead_added after insert on onceward_dead
  referencing new table as after for each statement execute function onceward_count_dead();
create trigger onceward_dead_changed after update on onceward_dead
  referencing old table as before new table as after for each statement execute function onceward_count_dead();
create trigger onceward_dead_removed after delete on onceward_dead
  referencing old table as before for each statement execute function onceward_count_dead();
