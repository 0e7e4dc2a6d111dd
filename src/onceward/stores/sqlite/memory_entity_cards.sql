-- Read of each of these entities how many living observations it has, up to a number, and the newest.
-- The index of documents knows, so that it costs the same however many there are.
select i.value,
  (select count(*) from (
    select 1 from memory_docs as d where d.entity_id = i.value and d.observation_id is not null limit :most)),
  substr(o.content, 1, :shown)
from json_each(:ids) as i
left join memory_observations as o on o.id = (
  select max(d.observation_id) from memory_docs as d where d.entity_id = i.value)
