-- Record what was done to a cursor, by whom and why.
insert into cursor_history
  (cursor_name, kind, happened_at, actor, reason, from_position, to_position, epoch, undoes)
values (:name, :kind, onceward_now(), :actor, :reason, :from_position, :to_position, :epoch, :undoes)
returning id
