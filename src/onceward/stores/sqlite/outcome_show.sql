-- Return everything known of one key, as of now.
select
  scope,
  key,
  {{ standing }} as standing,
  fence,
  owner,
  fingerprint,
  on_crash,
  claimed_at,
  updated_at,
  until_at,
  result,
  failure,
  note
from onceward_outcomes
where scope = :scope and key = :key
