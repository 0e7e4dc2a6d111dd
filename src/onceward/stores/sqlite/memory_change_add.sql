-- Note what is deleted or restored, one row for each. Rows are entity_id, observation_id and relation_id.
insert into memory_changes (action, entity_id, observation_id, relation_id, source, run, created_at)
select :action, r.value ->> '$.entity_id', r.value ->> '$.observation_id', r.value ->> '$.relation_id',
  :source, :run, :wall
from json_each(:rows) as r
order by r.key
returning id, entity_id, observation_id, relation_id
