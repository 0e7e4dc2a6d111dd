-- Let deleted entities be there again, with the types that are asked for now. Rows are name and type.
with found as (
  select e.id, r.type
  from (select * from json_to_recordset(:rows::json) as t (name text, type text) limit :count) as r
  join memory_entities as e on e.name = r.name
  where e.deleted_by is not null
  order by e.name
  for update of e
)
update memory_entities as e
set deleted_by = null, entity_type = found.type
from found
where e.id = found.id and e.deleted_by is not null
returning e.id, e.name
