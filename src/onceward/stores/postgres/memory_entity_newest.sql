-- Read living entities whose names lie in a range, the newest first.
with found as materialized (
  select * from memory_entities where name >= :low and name < :high and deleted_by is null)
select e.id, e.name, e.entity_type, e.source, e.run, onceward_time_text(e.created_at)
from found as e
order by e.id desc
limit :limit
