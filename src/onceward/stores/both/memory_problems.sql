-- Count what must never be: living parts of deleted entities, words without text, text without words.
select 'observations of deleted entities', (
    select count(*) from memory_observations as o join memory_entities as e on e.id = o.entity_id
    where o.deleted_by is null and e.deleted_by is not null)
union all
select 'relations of deleted entities', (
    select count(*) from memory_relations as o
    join memory_entities as f on f.id = o.from_id
    join memory_entities as t on t.id = o.to_id
    where o.deleted_by is null and (f.deleted_by is not null or t.deleted_by is not null))
union all
select 'deletions without a change', (
    select count(*) from (
      select deleted_by from memory_entities where deleted_by is not null
      union all select deleted_by from memory_observations where deleted_by is not null
      union all select deleted_by from memory_relations where deleted_by is not null) as gone
    where not exists (select 1 from memory_changes as c where c.id = gone.deleted_by and c.action = 'deleted'))
union all
select 'entities that are not indexed exactly once', (
    select count(*) from memory_entities as e
    where e.deleted_by is null
      and (select count(*) from memory_docs as d where d.entity_id = e.id and d.observation_id is null) <> 1)
union all
select 'observations that are not indexed exactly once', (
    select count(*) from memory_observations as o
    where o.deleted_by is null
      and (select count(*) from memory_docs as d where d.entity_id = o.entity_id and d.observation_id = o.id) <> 1)
union all
select 'words of what is deleted', (
    select count(*) from memory_docs as d
    join memory_entities as e on e.id = d.entity_id
    left join memory_observations as o on o.id = d.observation_id
    where e.deleted_by is not null or o.deleted_by is not null)
