-- Note what is deleted or restored, one row for each. Rows are entity_id, observation_id and relation_id.
insert into memory_changes (action, entity_id, observation_id, relation_id, source, run, created_at)
select :action, r.entity_id, r.observation_id, r.relation_id, :source::text, :run::text, onceward_now()
from rows from (json_to_recordset(:rows::json) as (entity_id bigint, observation_id bigint, relation_id bigint))
  with ordinality as r (entity_id, observation_id, relation_id, place)
order by r.place
returning id, entity_id, observation_id, relation_id
