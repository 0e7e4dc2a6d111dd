-- Index the words of entities and observations. Rows are entity_id, observation_id and words.
insert into memory_doc_words (entity_id, observation_id, words)
select r.value ->> '$.entity_id', r.value ->> '$.observation_id', r.value ->> '$.words'
from json_each(:rows) as r
order by r.key
