-- Find the living ones of these relations; their ends are held. Rows are from_id, to_id and type.
select o.id, o.from_id
from (select * from json_to_recordset(:rows::json) as t (from_id bigint, to_id bigint, type text) limit :count) as r
join memory_relations as o on o.from_id = r.from_id and o.to_id = r.to_id and o.relation_type = r.type
where o.deleted_by is null
