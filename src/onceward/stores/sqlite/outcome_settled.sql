-- Say how a holder settled its claim, if it did and nobody came after it.
select state, result, failure
from onceward_outcomes
where
  scope = :scope and key = :key and fence = :fence and owner = :owner
  and claimed_at = :granted_at
