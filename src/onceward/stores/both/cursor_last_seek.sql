-- Return the last seek that was not undone.
select id, from_position from cursor_history as seek
where cursor_name = :name and kind = 'seek'
  and not exists (select 1 from cursor_history where undoes = seek.id)
order by id desc limit 1
