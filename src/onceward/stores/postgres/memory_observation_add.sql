-- Add the observations that are new for their entities; the unique fingerprint decides.
-- Numbers in the order that was asked for, locks in one order: two batches never wait for each other.
insert into memory_observations (
  id, entity_id, fingerprint, content, kind, ts, mode, repo, branch, source, run, created_at)
select n.id, n.entity_id, n.fingerprint, n.content, n.kind, n.ts, n.mode, n.repo, n.branch,
  :source::text, :run::text, onceward_now()
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
