-- Remove samples of long ago, and of a clock that was far ahead, a few at a time.
delete from onceward_samples where (cursor_name, taken_at) in (
  -- One select around both: SQLite scans the whole table for a compound one.
  select cursor_name, taken_at from (
    select * from (
      select cursor_name, taken_at from onceward_samples
      where taken_at < strftime('%Y-%m-%dT%H:%M:%fZ', :wall, -:seconds || ' seconds')
      order by taken_at limit :limit
    )
    union all
    select * from (
      select cursor_name, taken_at from onceward_samples
      where taken_at > strftime('%Y-%m-%dT%H:%M:%fZ', :wall, :ahead || ' seconds')
      order by taken_at limit :limit
    )
  )
)
returning 1
