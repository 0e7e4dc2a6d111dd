-- What the console shows of the past: who had which cursor when, who was refused, how positions moved, which
-- workers there are, and who did what by hand.

-- Every grant of a lease; kept by triggers, so that no way past them grants one unseen. They look at the owner and
-- the epoch alone: a checkpoint and a renewal change neither and do not know of them. Names that begin with ~ are
-- our own and have none.
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

-- Whoever comes here has locked the cursor's row: grants of one cursor are written one after the other, and no
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

-- Late holders that the store turned away: one row for each thing that one of them tried.
create table onceward_refusals (
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

-- Where cursors were and how far behind, every now and then.
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

-- The worker processes; one that says nothing for a while is silent, one that ended has said so.
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

-- Who did what by hand, and what came of it.
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

-- Last, so that cursors are locked for a moment only.
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
