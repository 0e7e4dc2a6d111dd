-- Find the documents that match a question, the newest first, below one of them.
-- Ranges of names, if any, must hold the name. At most so many.
select d.id, d.entity_id, e.name, e.entity_type, coalesce(substr(o.content, 1, :shown), '')
from memory_find(:match::tsquery, :top, :ranges::json, :begun, :limit) as d
join memory_entities as e on e.id = d.entity_id
left join memory_observations as o on o.id = d.observation_id
order by d.id desc
