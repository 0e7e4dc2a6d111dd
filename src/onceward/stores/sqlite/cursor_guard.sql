-- Return a row if the lease is still the holder's; behind the write lock nobody can take it.
select lease_epoch from cursor_positions
where cursor_name = :name and lease_owner = :worker and lease_epoch = :epoch
