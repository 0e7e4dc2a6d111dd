-- Find the last merge after this one that is not undone and shares an entity or a relation with it; null if none.
with mine as (
  select source_id as id from memory_merges where id = :merge or merge = :merge
  union
  select target_id from memory_merges where id = :merge or merge = :merge
),
touched as (
  select id from mine
  union
  select to_id from memory_relations where from_id in (select id from mine)
  union
  select from_id from memory_relations where to_id in (select id from mine)
)
select max(coalesce(merge, id))
from memory_merges
where undone_at is null
  and coalesce(merge, id) > :merge
  and (source_id in (select id from touched) or target_id in (select id from touched))
