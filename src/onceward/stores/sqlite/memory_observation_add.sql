-- Add the observations that are new for their entities; the unique fingerprint decides.
insert into memory_observations (
  entity_id, fingerprint, content, kind, ts, mode, repo, branch, source, run, created_at)
select r.value ->> '$.entity_id', r.value ->> '$.fingerprint', r.value ->> '$.content', r.value ->> '$.kind',
  r.value ->> '$.ts', r.value ->> '$.mode', r.value ->> '$.repo', r.value ->> '$.branch', :source, :run, :wall
from json_each(:rows) as r
where true
order by r.key
on conflict (entity_id, fingerprint) do nothing
returning id, entity_id, fingerprint
