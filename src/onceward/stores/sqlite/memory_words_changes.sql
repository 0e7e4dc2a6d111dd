-- Tell how much this connection has changed; a merge that finds nothing to do changes one row at most.
select total_changes()
