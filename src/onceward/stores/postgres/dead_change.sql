-- Take a letter that is dead out of that state, once; no row when it is not dead.
update onceward_dead set state = :state, changed_at = onceward_now(), changed_by = :actor, reason = :reason,
  redrive_count = redrive_count + (:state::text = 'redriven')::int
where id = :id and state = 'dead'
returning cursor_name, position, sequence, key, alone, raw
