-- Note one more failed attempt of a parked message as it was when it was read, and when the next is due.
update onceward_parked set
  attempt = attempt + 1,
  due_seconds = :now + :delay, due_boot = :boot,
  due_at = strftime('%Y-%m-%dT%H:%M:%fZ', :wall, printf('%+.3f seconds', :delay)),
  first_failed_at = coalesce(first_failed_at, :wall),
  failures = json_insert(
    case when json_array_length(failures) >= :kept then json_remove(failures, '$[0]') else failures end,
    '$[#]', json_object('attempt', attempt + 1, 'at', :wall, 'error', :error))
where id = :id and attempt = :attempt and is_head
returning id
