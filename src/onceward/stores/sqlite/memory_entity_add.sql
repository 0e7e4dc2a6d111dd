-- Add the entities whose names are new; the unique name decides. Rows are name and type.
insert into memory_entities (name, entity_type, source, run, created_at)
select r.value ->> '$.name', r.value ->> '$.type', :source, :run, :wall
from json_each(:rows) as r
where true
order by r.key
on conflict (name) do nothing
returning id, name
