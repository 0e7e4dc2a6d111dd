-- Store: its clock and its applied migrations.

-- name: create_migrations
-- Create the table of applied migrations, if it is missing.
-- sqlite:
create table if not exists onceward_migrations (
  number integer primary key,
  name text not null,
  applied_at text not null
) strict
-- postgres:
create table if not exists onceward_migrations (
  number integer primary key,
  name text not null,
  applied_at timestamptz not null default clock_timestamp()
)

-- name: list_migrations
-- List the applied migrations by number, with their names.
select number, name from onceward_migrations order by number

-- name: lock_migrations (postgres)
-- Let one process migrate at a time; the lock ends with the transaction.
select pg_advisory_xact_lock(hashtext('onceward_migrations'))

-- name: note_migration
-- Record that a migration was applied.
-- sqlite:
insert into onceward_migrations (number, name, applied_at) values (:number, :name, {{ now }})
-- postgres:
insert into onceward_migrations (number, name) values (:number, :name)

-- name: store_time
-- Return the store's time as text.
select {{ text({{ now }}) }}

-- name: store_window
-- Return the time :seconds seconds ago, and now, by the store's clock.
select {{ text({{ seconds_before(moment) }}) }}, {{ text(moment) }}
from (select {{ now }} as moment) as t
