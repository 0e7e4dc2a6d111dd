-- Remove what happened to cursors long ago, a few at a time. Seeks and undos stay, and the last entry of every other kind.
delete from cursor_history where id in (
  select id from cursor_history as entry
  where kind <> 'seek' and kind <> 'undo' and happened_at < strftime('%Y-%m-%dT%H:%M:%fZ', :wall, -:seconds || ' seconds')
    and exists (
      select 1 from cursor_history as later
      where later.cursor_name = entry.cursor_name and later.id > entry.id and later.kind = entry.kind
    )
  order by happened_at limit :limit
)
returning 1
