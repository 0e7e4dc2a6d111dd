-- Return the cursors that fit among the next so many whose messages wait longest, as `cursor_page` does.
-- Behind each: since when they wait.
select cursor_name, last_position, onceward_time_text(last_processed_at), lease_owner,
  onceward_time_text(lease_expires_at), is_held, coalesce(error_count, 0), coalesce(paused, false),
  coalesce(metadata, '{}')::text, lease_epoch, steal_count, processed_count, rules_version,
  onceward_time_text(created_at), onceward_time_text(updated_at), waiting_since, fits, looked
from (
  select *, row_number() over (order by waiting_since, cursor_name) as number, count(*) over () as looked,
    (:pattern::text is null or cursor_name ilike :pattern escape '\')
      and (:state::text is null or :state = case when paused then 'paused' when is_held then 'held'
        when lease_owner is not null then 'expired' else 'free' end) as fits
  from (
    select each.*, waiting_since, onceward_cursor_is_held(each) as is_held
    from onceward_measures as measure
    join cursor_positions as each on each.cursor_name = measure.cursor_name
    where waiting_since is not null and starts_with(measure.cursor_name, '~') = :is_own::boolean
      and (waiting_since, measure.cursor_name) > (:since::float8, :after::text)
    order by waiting_since, measure.cursor_name limit :scan
  ) as waiting
) as looked_at
where fits or number = looked
order by waiting_since, cursor_name limit :limit
