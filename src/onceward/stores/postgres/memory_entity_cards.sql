-- Read of each of these entities how many living observations it has, up to a number, and the newest.
-- The index of documents knows, so that it costs the same however many there are.
select i.id,
  (select count(*) from (
    select 1 from memory_docs as d where d.entity_id = i.id and d.observation_id is not null limit :most) as counted),
  substr(o.content, 1, :shown)
from (select json_array_elements_text(:ids::json)::bigint as id limit :count) as i
left join lateral (
  select d.observation_id as id from memory_docs as d
  where d.entity_id = i.id and d.observation_id is not null
  order by d.observation_id desc limit 1) as n on true
left join memory_observations as o on o.id = n.id
