-- Say which of these entities have a document at or above a place that matches a question.
select distinct d.entity_id
from json_each(:ids) as r
join memory_docs as d on d.entity_id = r.value
join memory_words as w on w.rowid = d.id
where d.id >= :top and w.words match :match
