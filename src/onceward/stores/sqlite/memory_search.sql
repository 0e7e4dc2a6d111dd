-- Find the documents that match a question, the newest first, below one of them.
-- Ranges of names, if any, must hold the name. At most so many.
select d.id, d.entity_id, e.name, e.entity_type, coalesce(substr(o.content, 1, :shown), '')
from memory_words as w
join memory_docs as d on d.id = w.rowid
join memory_entities as e on e.id = d.entity_id
left join memory_observations as o on o.id = d.observation_id
where w.words match :match and w.rowid < :top
  and (:ranges is null or exists (
    select 1 from json_each(:ranges) as r where e.name >= r.value ->> '$.low' and e.name < r.value ->> '$.high'))
order by w.rowid desc
limit :limit
