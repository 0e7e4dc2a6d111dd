-- Say how a key stands as of now, for somebody who wants to claim it; writes nothing.
select
  standing,
  fingerprint,
  coalesce(result, failure),
  fence,
  owner,
  onceward_text(claimed_at),
  onceward_text(until_at),
  extract(epoch from until_at - onceward_now())::double precision
from onceward_outcomes_now
where scope = :scope and key = :key
