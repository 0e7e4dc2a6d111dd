-- Note that a step is about to happen, for the holder of its work, when it is new or free.
insert into onceward_effects as effect (scope, key, name, state, fence, updated_at)
select scope, key, :name, 'intended', fence, :wall
from onceward_outcomes
where
  scope = :scope and key = :key and fence = :fence and owner = :owner
  and claimed_at = :granted_at and state = 'running'
on conflict (scope, key, name) do update set
  state = 'intended',
  fence = excluded.fence,
  updated_at = excluded.updated_at,
  result = null,
  failure = null
where effect.state = 'free'
returning fence
