-- Count what restoring a change would bring back: the entity, observations, and relations whose ends are there then.
select
  (select count(*) from memory_entities where id = :id and deleted_by = :change),
  (select count(*) from memory_observations where deleted_by = :change),
  (select count(*) from memory_relations as r where r.deleted_by = :change and not exists (
    select 1 from memory_entities as e
    where e.id in (r.from_id, r.to_id) and e.deleted_by is not null and e.deleted_by <> :change))
