-- Find the living entities of these names, and let nobody add to them until this transaction ends.
select id, name
from memory_entities
where name in (select value from json_each(:names)) and deleted_by is null
