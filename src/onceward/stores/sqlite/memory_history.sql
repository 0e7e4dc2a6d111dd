-- Read what happened to an entity, its observations and its relations, the newest first.
select h.change, h.at as at, h.action, h.what, h.text, h.source, h.run
from (
  select * from (
    select null as change, e.created_at as at, 'created' as action, 'entity' as what, e.name as text,
      e.source, e.run, e.id as number
    from memory_entities as e where e.id = :id) as made
  union all
  select * from (
    select null, o.created_at, 'created', 'observation', o.content, o.source, o.run, o.id
    from memory_observations as o where o.entity_id = :id order by o.id desc limit :limit) as observed
  union all
  select * from (
    select null, o.created_at, 'created', 'relation', f.name || ' ' || o.relation_type || ' ' || t.name,
      o.source, o.run, o.id
    from memory_relations as o
    join memory_entities as f on f.id = o.from_id
    join memory_entities as t on t.id = o.to_id
    where o.id in (
      select id from memory_relations where from_id = :id
      union
      select id from memory_relations where to_id = :id)
    order by o.id desc limit :limit) as related
  union all
  select * from (
    select c.id, c.created_at, c.action,
      case when c.observation_id is not null then 'observation'
        when c.relation_id is not null then 'relation' else 'entity' end,
      coalesce(o.content, f.name || ' ' || r.relation_type || ' ' || t.name, e.name), c.source, c.run, c.id
    from memory_changes as c
    join memory_entities as e on e.id = c.entity_id
    left join memory_observations as o on o.id = c.observation_id
    left join memory_relations as r on r.id = c.relation_id
    left join memory_entities as f on f.id = r.from_id
    left join memory_entities as t on t.id = r.to_id
    where c.id in (
      select id from memory_changes where entity_id = :id
      union
      select x.id from memory_relations as y join memory_changes as x on x.relation_id = y.id where y.to_id = :id)
    order by c.id desc limit :limit) as changed
) as h
order by h.at desc, case when h.change is null then 0 else 1 end desc, h.number desc
limit :limit
