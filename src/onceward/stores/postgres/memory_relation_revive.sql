-- Let deleted relations be there again. Rows are from_id, to_id and type.
with found as (
  select o.id
  from (select * from json_to_recordset(:rows::json) as t (from_id bigint, to_id bigint, type text) limit :count) as r
  join memory_relations as o on o.from_id = r.from_id and o.to_id = r.to_id and o.relation_type = r.type
  where o.deleted_by is not null
  order by o.from_id, o.to_id, o.relation_type
  for update of o
)
update memory_relations as o
set deleted_by = null
from found
where o.id = found.id and o.deleted_by is not null
returning o.id, o.from_id, o.to_id, o.relation_type
