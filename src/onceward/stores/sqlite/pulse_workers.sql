-- Return what is another when a worker came, went or fell silent, or a lease was granted, ended, ran out or refused.
select (select count(*) from onceward_workers), (select count(*) from onceward_workers where stopped_at is null),
  (select count(*) from onceward_workers where stopped_at is null and seen_at < strftime('%Y-%m-%dT%H:%M:%fZ', :wall, '-15 seconds')),
  (select max(id) from onceward_grants), (select max(id) from onceward_refusals),
  (select count(*) from cursor_positions where lease_owner is not null),
  (select count(*) from cursor_positions where lease_boot_id is :boot and lease_expires_boot >= :now)
