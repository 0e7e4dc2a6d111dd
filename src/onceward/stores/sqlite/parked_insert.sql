-- Park a message at the end of its key's line, once; head if nobody stands there. No delay: due at once.
insert into onceward_parked (cursor_name, position, sequence, key, alone, is_head, raw, attempt,
  due_seconds, due_boot, due_at, failures, first_failed_at, parked_at)
values (:cursor, :position, :sequence, :key, :alone,
  :alone or not exists (select 1 from onceward_parked as o
    where o.cursor_name = :cursor and o.key = :key and not o.alone),
  :raw, :attempt,
  :now + :delay, iif(:delay is null, null, :boot),
  iif(:delay is null, null, strftime('%Y-%m-%dT%H:%M:%fZ', :wall, printf('%+.3f seconds', :delay))),
  iif(:error is null, :earlier,
    json_insert(:earlier, '$[#]', json_object('attempt', :attempt, 'at', :wall, 'error', :error))),
  coalesce(:first_failed_at, iif(:error is null, null, :wall)), :wall)
on conflict (cursor_name, position) do nothing
returning id
