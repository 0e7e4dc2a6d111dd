-- Take the words of observations out of the index. Rows are entity_id and observation_id.
delete from memory_docs
where (entity_id, observation_id) in (
  select r.value ->> '$.entity_id', r.value ->> '$.observation_id' from json_each(:rows) as r)
