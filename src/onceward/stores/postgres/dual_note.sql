-- Record in the cursors' history that a group was rolled back, by which batch, and from where to where.
insert into cursor_history (cursor_name, kind, happened_at, actor, reason, from_position, to_position, epoch)
values (:name, 'rollback', onceward_now(), :actor, :reason, :from_position, :to_position, :number)
