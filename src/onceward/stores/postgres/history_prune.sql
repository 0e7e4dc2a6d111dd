-- Remove the entries after one number and up to another that are old. Seeks and undos stay, and the last of every other kind.
delete from cursor_history where id in (
  select id from cursor_history as entry
  where id > :after and id <= :upto and kind <> 'seek' and kind <> 'undo'
    and happened_at < (select onceward_now()) - make_interval(secs => :seconds::float8)
    and id < (
      select max(id) from cursor_history as same
      where same.cursor_name = entry.cursor_name and same.kind = entry.kind
    )
  order by id for update skip locked
)
returning 1
