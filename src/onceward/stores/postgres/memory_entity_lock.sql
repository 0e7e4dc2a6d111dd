-- Find the living entities of these names, and let nobody add to them until this transaction ends.
select id, name
from memory_entities
where name in (select json_array_elements_text(:names::json) limit :count) and deleted_by is null
order by name
for update
