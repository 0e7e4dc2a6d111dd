-- Add the relations that are new; their two ends and their type decide.
insert into memory_relations (from_id, to_id, relation_type, source, run, created_at)
select r.value ->> '$.from_id', r.value ->> '$.to_id', r.value ->> '$.type', :source, :run, :wall
from json_each(:rows) as r
where true
order by r.key
on conflict (from_id, to_id, relation_type) do nothing
returning id, from_id, to_id, relation_type
