-- Count the work that is at it now, and the work that was begun and fell silent.
select
  count(*) filter (where state = 'running' and until_boot = :boot and :now < until_seconds),
  count(*) filter (
    where state = 'ambiguous' or (on_crash = 'ambiguous' and not (until_boot = :boot and :now < until_seconds))
  )
from onceward_outcomes
where state = 'running' or state = 'ambiguous'
