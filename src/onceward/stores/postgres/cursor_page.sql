-- Return the cursors that fit among the next so many behind a name, and the last one that was looked at.
-- Behind each: whether it fits, and how many were looked at. With :is_rest, none whose messages wait.
select cursor_name, last_position, onceward_time_text(last_processed_at), lease_owner,
  onceward_time_text(lease_expires_at), is_held, coalesce(error_count, 0), coalesce(paused, false),
  coalesce(metadata, '{}')::text, lease_epoch, steal_count, processed_count, rules_version,
  onceward_time_text(created_at), onceward_time_text(updated_at), null::float8, fits, looked
from (
  select *, row_number() over (order by cursor_name) as number, count(*) over () as looked,
    (:pattern::text is null or cursor_name ilike :pattern escape '\')
      and (:state::text is null or :state = case when paused then 'paused' when is_held then 'held'
        when lease_owner is not null then 'expired' else 'free' end)
      and not (:is_rest::boolean and exists (
        select 1 from onceward_measures as measure
        where measure.cursor_name = cursor.cursor_name and measure.waiting_since is not null
      )) as fits
  from (
    select *, onceward_cursor_is_held(each) as is_held
    from cursor_positions as each where cursor_name > :after and starts_with(cursor_name, '~') = :is_own::boolean
    order by cursor_name limit :scan
  ) as cursor
) as looked_at
where fits or number = looked
order by cursor_name limit :limit
