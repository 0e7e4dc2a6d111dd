-- Find the living entities of these names; nobody deletes them until this transaction ends.
select id, name, entity_type
from memory_entities
where name in (select json_array_elements_text(:names::json) limit :count) and deleted_by is null
order by name
for share
