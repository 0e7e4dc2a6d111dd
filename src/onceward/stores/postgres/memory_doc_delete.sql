-- Take the words of observations out of the index. Rows are entity_id and observation_id.
delete from memory_docs as d
using (select * from json_to_recordset(:rows::json) as t (entity_id bigint, observation_id bigint) limit :count) as r
where d.entity_id = r.entity_id and d.observation_id = r.observation_id
