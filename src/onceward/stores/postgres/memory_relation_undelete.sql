-- Let the relations be there again that a change deleted, unless one of their ends is not there:
-- then they are deleted as long as that end is.
with ends as (
  select e.id, e.deleted_by
  from memory_entities as e
  where e.id in (
    select from_id from memory_relations where deleted_by = :change
    union
    select to_id from memory_relations where deleted_by = :change)
  order by e.name
  for share
)
update memory_relations as o
set deleted_by = coalesce(
  (select e.deleted_by from ends as e where e.id = o.from_id),
  (select e.deleted_by from ends as e where e.id = o.to_id))
where o.deleted_by = :change
returning o.id, o.deleted_by, o.from_id
