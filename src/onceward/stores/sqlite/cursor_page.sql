-- Return the cursors that fit among the next so many behind a name, and the last one that was looked at.
-- Behind each: whether it fits, and how many were looked at. With :is_rest, none whose messages wait.
select cursor_name, last_position, last_processed_at, lease_owner, lease_expires_at, is_held,
  coalesce(error_count, 0), coalesce(paused, 0), coalesce(metadata, '{}'), lease_epoch, steal_count,
  processed_count, rules_version, created_at, updated_at, null, fits, looked
from (
  select *, row_number() over (order by cursor_name) as number, count(*) over () as looked,
    (:pattern is null or cursor_name like :pattern escape '\')
      and (:state is null or :state = case when coalesce(paused, 0) then 'paused' when is_held then 'held'
        when lease_owner is not null then 'expired' else 'free' end)
      and not (:is_rest and exists (
        select 1 from onceward_measures as measure
        where measure.cursor_name = cursor.cursor_name and measure.waiting_since is not null
      )) as fits
  from (
    select *, lease_owner is not null and lease_expires_at is not null and lease_expires_boot is not null
      and lease_boot_id is :boot and lease_expires_boot >= :now as is_held
    from cursor_positions where cursor_name > :after and (substr(cursor_name, 1, 1) = '~') = :is_own
    order by cursor_name limit :scan
  ) as cursor
)
where fits or number = looked
order by cursor_name limit :limit
