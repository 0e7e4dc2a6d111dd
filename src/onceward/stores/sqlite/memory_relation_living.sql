-- Find the living ones of these relations; their ends are held. Rows are from_id, to_id and type.
select o.id, o.from_id
from json_each(:rows) as r
join memory_relations as o
  on o.from_id = r.value ->> '$.from_id' and o.to_id = r.value ->> '$.to_id'
  and o.relation_type = r.value ->> '$.type'
where o.deleted_by is null
