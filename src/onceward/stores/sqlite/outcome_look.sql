-- Say how a key stands as of now, for somebody who wants to claim it; writes nothing.
select
  {{ standing }},
  fingerprint,
  coalesce(result, failure),
  fence,
  owner,
  claimed_at,
  until_at,
  until_seconds - :now
from onceward_outcomes
where scope = :scope and key = :key
