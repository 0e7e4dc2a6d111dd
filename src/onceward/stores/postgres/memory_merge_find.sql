-- Read the parts of a merge, the last first; nobody else undoes them until this transaction ends.
select m.id, t.id, t.name, s.name, m.change_id, m.added, onceward_time_text(m.undone_at)
from memory_merges as m
join memory_entities as t on t.id = m.target_id
join memory_entities as s on s.id = m.source_id
where (m.id = :merge::bigint and m.merge is null) or m.merge = :merge::bigint
order by m.id desc
for update of m
