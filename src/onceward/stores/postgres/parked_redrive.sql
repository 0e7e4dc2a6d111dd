-- Put a message back in the line of its key, where it stood, due at once; not when it is parked already.
insert into onceward_parked (cursor_name, position, sequence, key, alone, is_head, raw, attempt, failures, parked_at)
values (:cursor, :position, :sequence, :key, :alone, :alone, :raw, 0, '[]', onceward_now())
on conflict (cursor_name, position) do nothing
returning id
