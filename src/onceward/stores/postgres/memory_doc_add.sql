-- Index the words of entities and observations. Rows are entity_id, observation_id and words.
insert into memory_docs (entity_id, observation_id, words)
select r.entity_id, r.observation_id, r.words::tsvector
from rows from (json_to_recordset(:rows::json) as (entity_id bigint, observation_id bigint, words text))
  with ordinality as r (entity_id, observation_id, words, place)
order by r.place
