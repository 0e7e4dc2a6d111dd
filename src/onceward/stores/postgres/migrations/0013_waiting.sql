-- Since when the oldest message of a cursor waits, in seconds of Unix time; null while none does. It follows from
-- what was measured, so that workers of an older version, which know nothing of it, keep it too.
alter table onceward_measures add column waiting_since double precision generated always as (
  case when coalesce(lag_messages, 1) > 0
    then extract(epoch from measured_at at time zone 'UTC')::double precision - lag_seconds end
) stored;
create index onceward_measures_waiting on onceward_measures (waiting_since, cursor_name)
  where waiting_since is not null;
