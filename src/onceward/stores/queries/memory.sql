-- Memory: entities, observations, relations, changes, merges, and the index of words.

-- name: memory_change_add
-- Record deletions and restorations, one row for each. Rows are entity_id, observation_id and relation_id.
insert into memory_changes (action, entity_id, observation_id, relation_id, source, run, created_at)
select :action, r.entity_id, r.observation_id, r.relation_id, cast(:source as text), cast(:run as text), {{ now }}
from {{ part_rows(:rows) }} as r
order by r.place
returning id, entity_id, observation_id, relation_id

-- name: memory_change_find
-- Find a change and its entity.
select c.action, c.entity_id, c.observation_id, c.relation_id, e.name, e.deleted_by
from memory_changes as c
join memory_entities as e on e.id = c.entity_id
where c.id = :change

-- name: memory_change_left
-- Read the deletions of an entity that its parts still refer to, the newest first.
select c.id
from memory_entities as e
join memory_changes as c on c.entity_id = e.id
where e.name = :name and c.action = 'deleted' and c.observation_id is null and c.relation_id is null and (
  exists (select 1 from memory_observations as o where o.deleted_by = c.id)
  or exists (select 1 from memory_relations as r where r.deleted_by = c.id))
order by c.id desc
limit :limit

-- name: memory_counts
-- Count the entities, observations and relations, and the deleted ones.
select
  (select count(*) from memory_entities where deleted_by is null),
  (select count(*) from memory_observations where deleted_by is null),
  (select count(*) from memory_relations where deleted_by is null),
  (select count(*) from memory_entities where deleted_by is not null)
    + (select count(*) from memory_observations where deleted_by is not null)
    + (select count(*) from memory_relations where deleted_by is not null)

-- name: memory_doc_add
-- Index the words of entities and observations. Rows are entity_id, observation_id and words.
-- sqlite:
insert into memory_doc_words (entity_id, observation_id, words)
select r.value ->> '$.entity_id', r.value ->> '$.observation_id', r.value ->> '$.words'
from json_each(:rows) as r
order by r.key
-- postgres:
insert into memory_docs (entity_id, observation_id, words)
select r.entity_id, r.observation_id, r.words::tsvector
from rows from (json_to_recordset(:rows::json) as (entity_id bigint, observation_id bigint, words text))
  with ordinality as r (entity_id, observation_id, words, place)
order by r.place

-- name: memory_doc_delete
-- Remove the words of observations from the index. Rows are entity_id and observation_id.
delete from memory_docs
where (entity_id, observation_id) in (select entity_id, observation_id from {{ part_rows(:rows) }} as r)

-- name: memory_doc_delete_of
-- Remove the words of entities and all their observations from the index.
delete from memory_docs where entity_id {{ in_few_ids(:ids) }}

-- name: memory_entity_add
-- Add the entities whose names are new; the unique name decides. Rows are name and type.
-- sqlite:
insert into memory_entities (name, entity_type, source, run, created_at)
select r.value ->> '$.name', r.value ->> '$.type', :source, :run, {{ now }}
from json_each(:rows) as r
where true
order by r.key
on conflict (name) do nothing
returning id, name
-- postgres:
-- Ids in the order of the rows, locks in the order of names: two batches cannot deadlock.
insert into memory_entities (id, name, entity_type, source, run, created_at)
select n.id, n.name, n.type, :source::text, :run::text, {{ now }}
from (
  select nextval(pg_get_serial_sequence('memory_entities', 'id')) as id, s.name, s.type
  from (
    select r.name, r.type
    from (
      select * from rows from (json_to_recordset(:rows::json) as (name text, type text))
        with ordinality as t (name, type, place)
      limit :count) as r
    where not exists (select from memory_entities as e where e.name = r.name)
    order by r.place
  ) as s
) as n
order by n.name collate "C"
on conflict (name) do nothing
returning id, name

-- name: memory_entity_cards
-- Return for each entity its number of observations, up to :most, and the newest one.
-- By the index of documents, so that the cost does not depend on their number.
-- sqlite:
select i.value,
  (select count(*) from (
    select 1 from memory_docs as d where d.entity_id = i.value and d.observation_id is not null limit :most)),
  substr(o.content, 1, :shown)
from json_each(:ids) as i
left join memory_observations as o on o.id = (
  select max(d.observation_id) from memory_docs as d where d.entity_id = i.value)
-- postgres:
select i.id,
  (select count(*) from (
    select 1 from memory_docs as d where d.entity_id = i.id and d.observation_id is not null limit :most) as counted),
  substr(o.content, 1, :shown)
from (select json_array_elements_text(:ids::json)::bigint as id limit :count) as i
left join lateral (
  select d.observation_id as id from memory_docs as d
  where d.entity_id = i.id and d.observation_id is not null
  order by d.observation_id desc limit 1) as n on true
left join memory_observations as o on o.id = n.id

-- name: memory_entity_delete
-- Delete entities. Rows are the id of an entity and the change that deletes it.
update memory_entities
set deleted_by = r.change
from {{ change_rows(:rows) }} as r
where memory_entities.id = r.id
returning memory_entities.id

-- name: memory_entity_find
-- Find undeleted entities by name; they cannot be deleted until this transaction ends.
select id, name, entity_type
from memory_entities
where name {{ in_few_texts(:names) }} and deleted_by is null
order by name
{{ lock(share) }}

-- name: memory_entity_get
-- Return undeleted entities by id.
select {{ entity_columns }}
from memory_entities as e
where e.id {{ in_few_ids(:ids) }} and e.deleted_by is null
order by e.id

-- name: memory_entity_hold
-- Lock an entity and the other ends of the relations that a change deleted.
select id, name, entity_type, deleted_by
from memory_entities
where id in (
  select cast(:id as bigint)
  union
  select from_id from memory_relations where deleted_by = :change
  union
  select to_id from memory_relations where deleted_by = :change)
order by name
{{ lock(update) }}

-- name: memory_entity_id
-- Find an entity by its name, and the change that deleted it, if any.
select id, deleted_by from memory_entities where name = :name

-- name: memory_entity_latest
-- Return undeleted entities with an id below :before, newest first.
select {{ entity_columns }}
from memory_entities as e
where e.id < :before and e.deleted_by is null
order by e.id desc
limit :limit

-- name: memory_entity_lock
-- Find undeleted entities by name and lock them against additions until the transaction ends.
select id, name
from memory_entities
where name {{ in_few_texts(:names) }} and deleted_by is null
order by name
{{ lock(update) }}

-- name: memory_entity_newest
-- Return undeleted entities whose names lie in a range, newest first.
-- sqlite:
select {{ entity_columns }}
from memory_entities as e
where e.name >= :low and e.name < :high and e.deleted_by is null
order by e.id desc
limit :limit
-- postgres:
with found as materialized (
  select * from memory_entities where name >= :low and name < :high and deleted_by is null)
select {{ entity_columns }}
from found as e
order by e.id desc
limit :limit

-- name: memory_entity_open
-- Return undeleted entities by name, oldest first.
select {{ entity_columns }}
from memory_entities as e
where e.name {{ in_few_texts(:names) }} and e.deleted_by is null
order by e.id

-- name: memory_entity_page
-- Return undeleted entities with an id above :after, oldest first.
select {{ entity_columns }}
from memory_entities as e
where e.id > :after and e.deleted_by is null
order by e.id
limit :limit

-- name: memory_entity_range
-- Return undeleted entities whose names lie in a range and after a name, by name.
select {{ entity_columns }}
from memory_entities as e
where e.name >= :low and e.name < :high and e.name > :after and e.deleted_by is null
order by e.name
limit :limit

-- name: memory_entity_revive
-- Restore deleted entities with the given types. Rows are name and type.
-- sqlite:
update memory_entities
set deleted_by = null, entity_type = r.value ->> '$.type'
from json_each(:rows) as r
where memory_entities.name = r.value ->> '$.name' and memory_entities.deleted_by is not null
returning memory_entities.id, memory_entities.name
-- postgres:
with found as (
  select e.id, r.type
  from (select * from json_to_recordset(:rows::json) as t (name text, type text) limit :count) as r
  join memory_entities as e on e.name = r.name
  where e.deleted_by is not null
  order by e.name
  for update of e
)
update memory_entities as e
set deleted_by = null, entity_type = found.type
from found
where e.id = found.id and e.deleted_by is not null
returning e.id, e.name

-- name: memory_entity_show
-- Return an entity by name, deleted or not, and the change that deleted it.
select {{ entity_columns }}, e.deleted_by
from memory_entities as e
where e.name = :name

-- name: memory_entity_undelete
-- Restore an entity if this change deleted it.
update memory_entities
set deleted_by = null
where id = :id and deleted_by = :change
returning id

-- name: memory_history
-- Read the changes of an entity, its observations and its relations, newest first.
select h.change, {{ text(h.at) }} as at, h.action, h.what, h.text, h.source, h.run
from (
  select * from (
    select cast(null as bigint) as change, e.created_at as at, 'created' as action, 'entity' as what, e.name as text,
      e.source, e.run, e.id as number
    from memory_entities as e where e.id = :id) as made
  union all
  select * from (
    select cast(null as bigint), o.created_at, 'created', 'observation', o.content, o.source, o.run, o.id
    from memory_observations as o where o.entity_id = :id order by o.id desc limit :limit) as observed
  union all
  select * from (
    select cast(null as bigint), o.created_at, 'created', 'relation', f.name || ' ' || o.relation_type || ' ' || t.name,
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

-- name: memory_merge_add
-- Record that an entity was merged into another.
insert into memory_merges (merge, source_id, target_id, change_id, added, created_at)
values (:merge, :source, :target, :change, :added, {{ now }})
returning id

-- name: memory_merge_find
-- Return the parts of a merge, last first, locked until the transaction ends.
select m.id, t.id, t.name, s.name, m.change_id, m.added, {{ text(m.undone_at) }}
from memory_merges as m
join memory_entities as t on t.id = m.target_id
join memory_entities as s on s.id = m.source_id
where (m.id = cast(:merge as bigint) and m.merge is null) or m.merge = cast(:merge as bigint)
order by m.id desc
{{ lock(update of m) }}

-- name: memory_merge_list
-- Read the last merges that can be undone: number, time, number of names.
select coalesce(merge, id), {{ text(min(created_at)) }}, count(*)
from memory_merges
where undone_at is null
group by coalesce(merge, id)
order by 1 desc
limit :limit

-- name: memory_merge_newer
-- Find the last merge after this one that is not undone and shares an entity or a relation with it; null if none.
with mine as (
  select source_id as id from memory_merges where id = cast(:merge as bigint) or merge = cast(:merge as bigint)
  union
  select target_id from memory_merges where id = cast(:merge as bigint) or merge = cast(:merge as bigint)
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
  and coalesce(merge, id) > cast(:merge as bigint)
  and (source_id in (select id from touched) or target_id in (select id from touched))

-- name: memory_merge_parts
-- Count the undeleted observations and relations of an entity.
select
  (select count(*) from memory_observations where entity_id = :id and deleted_by is null)
  + (select count(*) from memory_relations where from_id = :id and deleted_by is null)
  + (select count(*) from memory_relations where to_id = :id and deleted_by is null)

-- name: memory_merge_sources
-- Find the entities whose merge into this one was not undone.
select source_id from memory_merges where target_id = :id and undone_at is null order by id

-- name: memory_merge_undo
-- Record that a part of a merge was undone.
update memory_merges set undone_at = {{ now }} where id = :id returning id

-- name: memory_observation_add
-- Add the observations that are new for their entities; the unique fingerprint decides.
-- sqlite:
insert into memory_observations (
  entity_id, fingerprint, content, kind, ts, mode, repo, branch, source, run, created_at)
select r.value ->> '$.entity_id', r.value ->> '$.fingerprint', r.value ->> '$.content', r.value ->> '$.kind',
  r.value ->> '$.ts', r.value ->> '$.mode', r.value ->> '$.repo', r.value ->> '$.branch', :source, :run, {{ now }}
from json_each(:rows) as r
where true
order by r.key
on conflict (entity_id, fingerprint) do nothing
returning id, entity_id, fingerprint
-- postgres:
-- Ids in the order of the rows, locks in one order: two batches cannot deadlock.
insert into memory_observations (
  id, entity_id, fingerprint, content, kind, ts, mode, repo, branch, source, run, created_at)
select n.id, n.entity_id, n.fingerprint, n.content, n.kind, n.ts, n.mode, n.repo, n.branch,
  :source::text, :run::text, {{ now }}
from (
  select nextval(pg_get_serial_sequence('memory_observations', 'id')) as id, s.*
  from (
    select r.entity_id, r.fingerprint, r.content, r.kind, r.ts, r.mode, r.repo, r.branch
    from (
      select * from rows from (json_to_recordset(:rows::json) as (
        entity_id bigint, fingerprint text, content text, kind text, ts text, mode text, repo text, branch text
      )) with ordinality as t (entity_id, fingerprint, content, kind, ts, mode, repo, branch, place)
      limit :count) as r
    where not exists (
      select from memory_observations as o where o.entity_id = r.entity_id and o.fingerprint = r.fingerprint)
    order by r.place
  ) as s
) as n
order by n.entity_id, n.fingerprint collate "C"
on conflict (entity_id, fingerprint) do nothing
returning id, entity_id, fingerprint

-- name: memory_observation_delete
-- Delete observations. Rows are the id of an observation and the change that deletes it.
update memory_observations
set deleted_by = r.change
from {{ change_rows(:rows) }} as r
where memory_observations.id = r.id

-- name: memory_observation_delete_of
-- Delete all observations of entities, by the change that deletes the entity.
update memory_observations
set deleted_by = r.change
from {{ change_rows(:rows) }} as r
where memory_observations.entity_id = r.id and memory_observations.deleted_by is null
returning memory_observations.id

-- name: memory_observation_newest
-- Return the newest undeleted observations of an entity, by the index of documents; long ones are cut.
-- sqlite:
select o.id, substr(o.content, 1, :shown), o.fingerprint, o.kind, o.ts, o.source, o.run, o.created_at
from memory_docs as d
join memory_observations as o on o.id = d.observation_id
where d.entity_id = :id and d.observation_id is not null
order by d.observation_id desc
limit :limit
-- postgres:
select o.id, substr(o.content, 1, :shown), o.fingerprint, o.kind, o.ts, o.source, o.run, {{ text(o.created_at) }}
from (
  select d.observation_id as id from memory_docs as d
  where d.entity_id = :id and d.observation_id is not null
  order by d.observation_id desc
  limit :limit) as n
join memory_observations as o on o.id = n.id
order by o.id desc

-- name: memory_observation_of
-- Return the undeleted observations of entities, newest first.
select o.entity_id, o.id, o.content, o.fingerprint, o.kind, o.ts, o.source, o.run, {{ text(o.created_at) }}
from memory_observations as o
where o.entity_id {{ in_few_ids(:ids) }} and o.deleted_by is null
order by o.id desc
limit :limit

-- name: memory_observation_revive
-- Restore deleted observations. Rows are entity_id and fingerprint.
-- sqlite:
update memory_observations
set deleted_by = null
from json_each(:rows) as r
where memory_observations.entity_id = r.value ->> '$.entity_id'
  and memory_observations.fingerprint = r.value ->> '$.fingerprint'
  and memory_observations.deleted_by is not null
returning memory_observations.id, memory_observations.entity_id, memory_observations.fingerprint
-- postgres:
with found as (
  select o.id
  from (select * from json_to_recordset(:rows::json) as t (entity_id bigint, fingerprint text) limit :count) as r
  join memory_observations as o on o.entity_id = r.entity_id and o.fingerprint = r.fingerprint
  where o.deleted_by is not null
  order by o.entity_id, o.fingerprint
  for update of o
)
update memory_observations as o
set deleted_by = null
from found
where o.id = found.id and o.deleted_by is not null
returning o.id, o.entity_id, o.fingerprint

-- name: memory_observation_show
-- Return one observation of an entity, deleted or not; a long one is cut.
select o.id, substr(o.content, 1, :shown), o.fingerprint, o.kind, o.ts, o.source, o.run, {{ text(o.created_at) }}
from memory_observations as o
where o.id = :id and o.entity_id = :entity

-- name: memory_observation_undelete
-- Restore the observations that a change deleted.
update memory_observations
set deleted_by = null
where deleted_by = :change
returning id, entity_id, content

-- name: memory_observation_undeleted
-- Find the undeleted ones of these observations; their entities are locked. Rows are entity_id and fingerprint.
select o.id, o.entity_id
from {{ observation_rows(:rows) }} as r
join memory_observations as o on o.entity_id = r.entity_id and o.fingerprint = r.fingerprint
where o.deleted_by is null

-- name: memory_problems
-- Count violations: undeleted parts of deleted entities, words without text, text without words.
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

-- name: memory_relation_add
-- Add the relations that are new; their two ends and their type decide.
-- sqlite:
insert into memory_relations (from_id, to_id, relation_type, source, run, created_at)
select r.value ->> '$.from_id', r.value ->> '$.to_id', r.value ->> '$.type', :source, :run, {{ now }}
from json_each(:rows) as r
where true
order by r.key
on conflict (from_id, to_id, relation_type) do nothing
returning id, from_id, to_id, relation_type
-- postgres:
-- Ids in the order of the rows, locks in one order: two batches cannot deadlock.
insert into memory_relations (id, from_id, to_id, relation_type, source, run, created_at)
select n.id, n.from_id, n.to_id, n.type, :source::text, :run::text, {{ now }}
from (
  select nextval(pg_get_serial_sequence('memory_relations', 'id')) as id, s.*
  from (
    select r.from_id, r.to_id, r.type
    from (
      select * from rows from (json_to_recordset(:rows::json) as (from_id bigint, to_id bigint, type text))
        with ordinality as t (from_id, to_id, type, place)
      limit :count) as r
    where not exists (
      select from memory_relations as o
      where o.from_id = r.from_id and o.to_id = r.to_id and o.relation_type = r.type)
    order by r.place
  ) as s
) as n
order by n.from_id, n.to_id, n.type collate "C"
on conflict (from_id, to_id, relation_type) do nothing
returning id, from_id, to_id, relation_type

-- name: memory_relation_around
-- Return undeleted relations of each entity: at most :each that begin there and :each that end there.
-- sqlite:
select r.id, f.name, t.name, r.relation_type, r.source, r.run, r.created_at, f.id, f.entity_type, t.id, t.entity_type
from json_each(:ids) as i
cross join memory_relations as r on r.id in (
  select id from (
    select b.id from memory_relations as b
    where b.from_id = i.value and b.deleted_by is null order by b.to_id desc limit :each)
  union
  select id from (
    select b.id from memory_relations as b
    where b.to_id = i.value and b.deleted_by is null order by b.id desc limit :each))
join memory_entities as f on f.id = r.from_id
join memory_entities as t on t.id = r.to_id
order by r.id desc
-- postgres:
select r.id, f.name, t.name, r.relation_type, r.source, r.run, {{ text(r.created_at) }},
  f.id, f.entity_type, t.id, t.entity_type
from (select json_array_elements_text(:ids::json)::bigint as id limit :count) as i
cross join lateral (
  (select b.* from memory_relations as b
   where b.from_id = i.id and b.deleted_by is null order by b.to_id desc limit :each)
  union
  (select b.* from memory_relations as b
   where b.to_id = i.id and b.deleted_by is null limit :each)
) as r
join memory_entities as f on f.id = r.from_id
join memory_entities as t on t.id = r.to_id
order by r.id desc

-- name: memory_relation_delete
-- Delete relations. Rows are the id of a relation and the change that deletes it.
update memory_relations
set deleted_by = r.change
from {{ change_rows(:rows) }} as r
where memory_relations.id = r.id

-- name: memory_relation_delete_of
-- Delete all relations that begin or end at an entity, by the change that deletes the entity.
update memory_relations
set deleted_by = :change
where id in (
    select id from memory_relations where from_id = :id
    union
    select id from memory_relations where to_id = :id)
  and deleted_by is null
returning id

-- name: memory_relation_from
-- Return the undeleted relations that begin at these entities, newest first.
-- sqlite:
select o.id, f.name, t.name, o.relation_type, o.source, o.run, o.created_at
from memory_relations as o
join memory_entities as f on f.id = o.from_id
join memory_entities as t on t.id = o.to_id
where o.id in (
  select id from memory_relations where from_id {{ in_few_ids(:ids) }}) and o.deleted_by is null
order by o.id desc
limit :limit
-- postgres:
select x.id,
  (select e.name from memory_entities as e where e.id = x.from_id),
  (select e.name from memory_entities as e where e.id = x.to_id),
  x.relation_type, x.source, x.run, {{ text(x.created_at) }}
from (
  select r.* from (select json_array_elements_text(:ids::json)::bigint as id limit :count) as i
  join memory_relations as r on r.from_id = i.id and r.deleted_by is null
) as x
order by x.id desc
limit :limit

-- name: memory_relation_of
-- Return the undeleted relations that begin or end at these entities, newest first.
-- sqlite:
select o.id, f.name, t.name, o.relation_type, o.source, o.run, o.created_at
from memory_relations as o
join memory_entities as f on f.id = o.from_id
join memory_entities as t on t.id = o.to_id
where o.id in (
  select id from memory_relations where from_id {{ in_few_ids(:ids) }}
  union
  select id from memory_relations where to_id {{ in_few_ids(:ids) }}) and o.deleted_by is null
order by o.id desc
limit :limit
-- postgres:
select x.id,
  (select e.name from memory_entities as e where e.id = x.from_id),
  (select e.name from memory_entities as e where e.id = x.to_id),
  x.relation_type, x.source, x.run, {{ text(x.created_at) }}
from (
  select r.* from (select json_array_elements_text(:ids::json)::bigint as id limit :count) as i
  join memory_relations as r on r.from_id = i.id and r.deleted_by is null
  union
  select r.* from (select json_array_elements_text(:ids::json)::bigint as id limit :count) as i
  join memory_relations as r on r.to_id = i.id and r.deleted_by is null
) as x
order by x.id desc
limit :limit

-- name: memory_relation_revive
-- Restore deleted relations. Rows are from_id, to_id and type.
-- sqlite:
update memory_relations
set deleted_by = null
from json_each(:rows) as r
where memory_relations.from_id = r.value ->> '$.from_id' and memory_relations.to_id = r.value ->> '$.to_id'
  and memory_relations.relation_type = r.value ->> '$.type' and memory_relations.deleted_by is not null
returning memory_relations.id, memory_relations.from_id, memory_relations.to_id, memory_relations.relation_type
-- postgres:
with found as (
  select o.id
  from (select * from json_to_recordset(:rows::json) as t (from_id bigint, to_id bigint, type text) limit :count) as r
  join memory_relations as o on o.from_id = r.from_id and o.to_id = r.to_id and o.relation_type = r.type
  where o.deleted_by is not null
  order by o.from_id, o.to_id, o.relation_type
  for update of o
)
update memory_relations as o
set deleted_by = null
from found
where o.id = found.id and o.deleted_by is not null
returning o.id, o.from_id, o.to_id, o.relation_type

-- name: memory_relation_undelete
-- Restore the relations that a change deleted. One with a deleted end stays deleted, by that end's change.
-- sqlite:
update memory_relations
set deleted_by = coalesce(
  (select e.deleted_by from memory_entities as e where e.id = memory_relations.from_id),
  (select e.deleted_by from memory_entities as e where e.id = memory_relations.to_id))
where deleted_by = :change
returning id, deleted_by, from_id
-- postgres:
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

-- name: memory_relation_undeleted
-- Find the undeleted ones of these relations; their ends are locked. Rows are from_id, to_id and type.
select o.id, o.from_id
from {{ relation_rows(:rows) }} as r
join memory_relations as o on o.from_id = r.from_id and o.to_id = r.to_id and o.relation_type = r.type
where o.deleted_by is null

-- name: memory_restore_counts
-- Count what restoring a change would restore: the entity, observations, and relations with both ends undeleted.
select
  (select count(*) from memory_entities where id = :id and deleted_by = :change),
  (select count(*) from memory_observations where deleted_by = :change),
  (select count(*) from memory_relations as r where r.deleted_by = :change and not exists (
    select 1 from memory_entities as e
    where e.id in (r.from_id, r.to_id) and e.deleted_by is not null and e.deleted_by <> :change))

-- name: memory_search
-- Find documents that match a query, newest first, with an id below :top.
-- If there are ranges of names, the entity's name must be in one of them.
-- sqlite:
select d.id, d.entity_id, e.name, e.entity_type, coalesce(substr(o.content, 1, :shown), '')
from memory_words as w
join memory_docs as d on d.id = w.rowid
join memory_entities as e on e.id = d.entity_id
left join memory_observations as o on o.id = d.observation_id
where w.words match :match and w.rowid < :top
  and (:ranges is null or exists (
    select 1 from json_each(:ranges) as r where e.name >= r.value ->> '$.low' and e.name < r.value ->> '$.high'))
order by w.rowid desc
limit :limit
-- postgres:
select d.id, d.entity_id, e.name, e.entity_type, coalesce(substr(o.content, 1, :shown), '')
from memory_find(:match::tsquery, :top, :ranges::json, :begun, :limit) as d
join memory_entities as e on e.id = d.entity_id
left join memory_observations as o on o.id = d.observation_id
order by d.id desc

-- name: memory_search_seen
-- Return those of these entities that have a matching document with an id of :top or above.
-- sqlite:
select distinct d.entity_id
from json_each(:ids) as r
join memory_docs as d on d.entity_id = r.value
join memory_words as w on w.rowid = d.id
where d.id >= :top and w.words match :match
-- postgres:
select distinct d.entity_id
from memory_docs as d
where d.entity_id {{ in_few_ids(:ids) }}
  and d.id >= :top and d.words @@ :match::tsquery

-- name: memory_words_changes (sqlite)
-- Return the number of rows this connection has changed; a merge that finds no work changes at most one.
select total_changes()

-- name: memory_words_empty (sqlite)
-- Empty the index of words.
insert into memory_words (memory_words) values ('delete-all')

-- name: memory_words_fill (sqlite)
-- Fill the index of words from the copy.
insert into memory_words (rowid, words) select doc, words from memory_words_kept

-- name: memory_words_gone (sqlite)
-- Return the number of documents in the word index, and of deleted ones that are still in it.
select live, gone from memory_words_count where id = 1

-- name: memory_words_keep (sqlite)
-- Copy the words of undeleted documents, before the index of words is emptied.
create temp table memory_words_kept as
select doc, group_concat(term, ' ') as words
from (
  select p.doc, p.term from memory_words_places as p
  where p.doc in (select id from memory_docs) order by p.doc, p.offset
)
group by doc

-- name: memory_words_kept_drop (sqlite)
-- Drop the copy of the words.
drop table memory_words_kept

-- name: memory_words_merge (sqlite)
-- Merge :pages pages of the word index; a negative number merges segments of all sizes.
insert into memory_words (memory_words, rank) values ('merge', :pages)

-- name: memory_words_problems (sqlite)
-- Count inconsistencies of the index of words: documents without words, and wrong counts.
select 'documents without words', (
    select count(*) from memory_docs as d
    where not exists (select 1 from memory_words as w where w.rowid = d.id))
union all
select 'a wrong count of words', (
    select count(*) from memory_words_count as c
    where c.live <> (select count(*) from memory_docs)
      or c.live + c.gone <> (select count(*) from memory_words))

-- name: memory_words_recount (sqlite)
-- Record that the index of words has no deleted document.
update memory_words_count set gone = 0
