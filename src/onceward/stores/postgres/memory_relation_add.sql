-- Add the relations that are new; their two ends and their type decide.
-- Numbers in the order that was asked for, locks in one order: two batches never wait for each other.
insert into memory_relations (id, from_id, to_id, relation_type, source, run, created_at)
select n.id, n.from_id, n.to_id, n.type, :source::text, :run::text, onceward_now()
from (
  select nextval(pg_get_serial_sequence('memory_relations', 'id')) as id, s.*
  from (
    select r.from_id, r.to_id, r.type
    from (
      select * from rows from (json_to_recordset(:rows::json) as (from_id bigint, to_id bigint, type text))
        with ordinality as t (from_id, to_id, type, place)
      limit :count) as r
    where not exists (
      select from memory_relations as o
      where o.from_id = r.from_id and o.to_id = r.to_id and o.relation_type = r.type)
    order by r.place
  ) as s
) as n
order by n.from_id, n.to_id, n.type collate "C"
on conflict (from_id, to_id, relation_type) do nothing
returning id, from_id, to_id, relation_type
