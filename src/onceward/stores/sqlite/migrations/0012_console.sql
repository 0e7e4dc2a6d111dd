-- What the console shows of the past: who had which cursor when, who was refused, how positions moved, which
-- workers there are, and who did what by hand.

-- Every grant of a lease; kept by triggers, so that no way past them grants one unseen. They look at the owner and
-- the epoch alone: a checkpoint and a renewal change neither and do not know of them. Names that begin with ~ are
-- our own and have none.
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

-- Late holders that the store turned away: one row for each thing that one of them tried.
create table onceward_refusals (
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

-- Where cursors were and how far behind, every now and then.
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

-- The worker processes; one that says nothing for a while is silent, one that ended has said so.
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

-- Who did what by hand, and what came of it.
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

insert into onceward_grants (cursor_name, epoch, worker, granted_at)
  select cursor_name, lease_epoch, lease_owner, updated_at from cursor_positions
    where lease_owner is not null and substr(cursor_name, 1, 1) <> '~';
