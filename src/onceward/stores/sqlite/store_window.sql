-- Return the moment so many seconds ago, and now, by the clock that leases are decided by.
select strftime('%Y-%m-%dT%H:%M:%fZ', :wall, -:seconds || ' seconds'), :wall
