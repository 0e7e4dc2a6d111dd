-- Note one more failed attempt of a position, and when the next one is due.
insert into onceward_attempts (cursor_name, position, sequence, attempt,
  due_seconds, due_boot, due_at, failures, first_failed_at)
values (:cursor, :position, :sequence, :attempt,
  :now + :delay, :boot, strftime('%Y-%m-%dT%H:%M:%fZ', :wall, printf('%+.3f seconds', :delay)),
  json_array(json_object('attempt', :attempt, 'at', :wall, 'error', :error)), :wall)
on conflict (cursor_name, position) do update set
  attempt = excluded.attempt,
  due_seconds = excluded.due_seconds, due_boot = excluded.due_boot, due_at = excluded.due_at,
  failures = json_insert(
    case when json_array_length(failures) >= :kept then json_remove(failures, '$[0]') else failures end,
    '$[#]', json_extract(excluded.failures, '$[0]'))
