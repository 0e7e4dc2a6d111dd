-- Let a head stand back for an earlier message of its key.
update onceward_parked set is_head = false
where cursor_name = :cursor and key = :key and not alone and is_head
  and sequence > (select min(o.sequence) from onceward_parked as o
    where o.cursor_name = :cursor and o.key = :key and not o.alone)
