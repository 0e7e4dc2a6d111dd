-- Cursors: how far a reader has come, who holds it, and what was done to it by hand.
-- A table of this shape that is there already, with its rows, is taken over.
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

-- A moment as text, the same as on SQLite.
create function onceward_time_text(moment timestamptz) returns text
  language sql immutable
  as $$ select to_char(moment at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') $$;

-- Whether the lease has not run out; one that never got an end has.
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

-- Raise, so that whatever is sent behind it, a commit too, does not happen.
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

-- Lock a cursor against its guards. They get a second to end; then their backends are ended,
-- because a client that is frozen inside its transaction would keep the lock for ever.
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

-- Grant the lease, or return no row. Locks only what it may take, and looks again behind the lock.
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
          values (_name, 'steal', _worker, 'the lease of ' || old.lease_owner || ' ran out',
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

-- Move the position and renew the lease, or raise.
create function onceward_cursor_checkpoint(
  _name text, _worker text, _epoch bigint, _position text, _count bigint, _seconds double precision
) returns void
  language plpgsql
  as $$
    begin
      update cursor_positions set
          last_position = _position,
          last_processed_at = onceward_now(),
          error_count = 0,
          processed_count = processed_count + _count,
          lease_expires_at = case when paused then lease_expires_at
            else onceward_now() + make_interval(secs => _seconds) end,
          updated_at = onceward_now()
        where cursor_name = _name and lease_owner = _worker and lease_epoch = _epoch;
      if not found then
        perform onceward_lease_lost(_name, _epoch);
      end if;
    end
  $$;
