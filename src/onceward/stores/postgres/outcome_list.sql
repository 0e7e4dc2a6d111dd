-- Return the outcomes of a state or a scope, or of any, as of now, latest change first.
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
where
  (:state::text is null or standing = :state)
  and (:scope::text is null or scope = :scope)
order by updated_at desc, scope, key
limit :limit
