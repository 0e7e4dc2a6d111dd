-- Cursors: how far a reader has come, who holds it, and what was done to it by hand.
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

-- Record who took over from whom, in the statement that does it.
create trigger cursor_stolen after update of steal_count on cursor_positions
  when new.steal_count > old.steal_count
begin
  insert into cursor_history
    (cursor_name, kind, happened_at, actor, reason, from_position, to_position, epoch)
    values (new.cursor_name, 'steal', new.updated_at, new.lease_owner,
      'the lease of ' || old.lease_owner || ' ran out',
      old.last_position, new.last_position, new.lease_epoch);
end;
