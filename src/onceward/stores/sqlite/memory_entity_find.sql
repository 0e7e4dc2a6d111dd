-- Find the living entities of these names; nobody deletes them until this transaction ends.
select id, name, entity_type
from memory_entities
where name in (select value from json_each(:names)) and deleted_by is null
