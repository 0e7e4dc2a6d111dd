-- Return everything known of one key, as of now.
select
  scope,
  key,
  standing,
  fence,
  owner,
  fingerprint,
  on_crash,
  onceward_text(claimed_at),
  onceward_text(updated_at),
  onceward_text(until_at),
  result,
  failure,
  note
from onceward_outcomes_now
where scope = :scope and key = :key
