-- Return the last seek that was not undone, and where it went from where and when.
select id, from_position, to_position, happened_at from cursor_history as seek
where cursor_name = :name and kind = 'seek'
  and not exists (select 1 from cursor_history where undoes = seek.id)
order by id desc limit 1
