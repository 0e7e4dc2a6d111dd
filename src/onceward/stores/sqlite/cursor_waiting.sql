-- Return the cursors that fit among the next so many whose messages wait longest, as `cursor_page` does.
-- Behind each: since when they wait.
select cursor_name, last_position, last_processed_at, lease_owner, lease_expires_at, is_held,
  coalesce(error_count, 0), coalesce(paused, 0), coalesce(metadata, '{}'), lease_epoch, steal_count,
  processed_count, rules_version, created_at, updated_at, waiting_since, fits, looked
from (
  select *, row_number() over (order by waiting_since, cursor_name) as number, count(*) over () as looked,
    (:pattern is null or cursor_name like :pattern escape '\')
      and (:state is null or :state = case when coalesce(paused, 0) then 'paused' when is_held then 'held'
        when lease_owner is not null then 'expired' else 'free' end) as fits
  from (
    select cursor.*, waiting_since, lease_owner is not null and lease_expires_at is not null
      and lease_expires_boot is not null and lease_boot_id is :boot and lease_expires_boot >= :now as is_held
    from onceward_measures as measure
    join cursor_positions as cursor on cursor.cursor_name = measure.cursor_name
    where waiting_since is not null and (substr(measure.cursor_name, 1, 1) = '~') = :is_own
      and (waiting_since, measure.cursor_name) > (:since, :after)
    order by waiting_since, measure.cursor_name limit :scan
  )
)
where fits or number = looked
order by waiting_since, cursor_name limit :limit
