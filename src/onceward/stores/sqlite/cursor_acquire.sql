-- Grant the lease if it is free, has run out or is the worker's own, never while paused; else no row.
insert into cursor_positions (
  cursor_name, last_processed_at, lease_owner, lease_expires_at, lease_expires_boot, lease_boot_id,
  lease_epoch, rules_version, created_at, updated_at
) values (
  :name, :wall, :worker, strftime('%Y-%m-%dT%H:%M:%fZ', :wall, :seconds || ' seconds'),
  :now + :seconds, :boot, 1, :version, :wall, :wall
)
on conflict (cursor_name) do update set
  lease_owner = excluded.lease_owner,
  lease_expires_at = excluded.lease_expires_at,
  lease_expires_boot = excluded.lease_expires_boot,
  lease_boot_id = excluded.lease_boot_id,
  lease_epoch = lease_epoch + 1,
  steal_count = steal_count + (lease_owner is not null and lease_owner <> excluded.lease_owner),
  updated_at = excluded.updated_at
where not coalesce(paused, 0) and (
  lease_owner is null
  or lease_owner = :worker
  or (:may_steal and (
    lease_expires_at is null
    or lease_expires_boot is null
    or lease_boot_id is not :boot
    or lease_expires_boot < :now
  ))
)
returning lease_epoch, last_position, rules_version
