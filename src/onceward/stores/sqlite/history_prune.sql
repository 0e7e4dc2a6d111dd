-- Remove the entries after one number and up to another that are old. Seeks and undos stay, and the last of every other kind.
delete from cursor_history where id in (
  select id from cursor_history as entry
  where id > :after and id <= :upto and kind <> 'seek' and kind <> 'undo'
    and happened_at < strftime('%Y-%m-%dT%H:%M:%fZ', :wall, -:seconds || ' seconds')
    and id < (
      select max(id) from cursor_history as same
      where same.cursor_name = entry.cursor_name and same.kind = entry.kind
    )
)
returning 1
