-- Say which of these entities have a document at or above a place that matches a question.
select distinct d.entity_id
from memory_docs as d
where d.entity_id in (select json_array_elements_text(:ids::json)::bigint limit :count)
  and d.id >= :top and d.words @@ :match::tsquery
