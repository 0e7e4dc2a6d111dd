-- Add the entities whose names are new; the unique name decides. Rows are name and type.
-- Numbers in the order that was asked for, locks in the order of names: two batches never wait for each other.
insert into memory_entities (id, name, entity_type, source, run, created_at)
select n.id, n.name, n.type, :source::text, :run::text, onceward_now()
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
