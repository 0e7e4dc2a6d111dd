-- Since when the oldest message of a cursor waits, in seconds of Unix time; null while none does. It follows from
-- what was measured, so that workers of an older version, which know nothing of it, keep it too.
alter table onceward_measures add column waiting_since real generated always as (
  iif(coalesce(lag_messages, 1) > 0, (julianday(measured_at) - 2440587.5) * 86400.0 - lag_seconds, null)
) virtual;
create index onceward_measures_waiting on onceward_measures (waiting_since, cursor_name)
  where waiting_since is not null;
