-- Count the work that is at it now, and the work that was begun and fell silent.
select count(*) filter (where standing = 'running'), count(*) filter (where standing = 'ambiguous')
from onceward_outcomes_now
where state = 'running' or state = 'ambiguous'
