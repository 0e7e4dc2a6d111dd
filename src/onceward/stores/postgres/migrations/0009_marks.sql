-- A worker that froze inside its transaction keeps the locks it took there, and the one that takes its
-- cursor over would wait for them. Every such transaction is marked with a shared advisory lock, and
-- whoever is granted the cursor ends those that are; while it is being granted, nobody can mark one.

-- Mark this transaction as work on a cursor, or raise if the cursor is somebody else's.
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

-- End the marked transactions of a cursor and let nobody mark another until this one ends. A backend of
-- another role that we may not end is left alone: its writes are refused all the same.
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

create or replace function onceward_cursor_acquire(
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
          values (_name, 'steal', _worker, 'the lease of ' || old.lease_owner || ' ran out',
            old.last_position, old.last_position, old.lease_epoch + 1);
      end if;
    end
  $$;

-- Move the position and renew the lease, or raise. A lease that was renewed a moment ago is left as it
-- is: its column has an index, and an update that changes none of those is cheaper by far.
create or replace function onceward_cursor_checkpoint(
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

-- A move settles what was read since, whichever seek had forgotten it.
create index onceward_forgotten_by_cursor on onceward_forgotten (cursor_name, id);
