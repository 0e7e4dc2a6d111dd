-- Return what is another when a key came, the work on one ended, or fell silent.
select (select max(sequence) from onceward_outcomes),
  (select count(*) from onceward_outcomes where state = 'running' or state = 'ambiguous'),
  (select count(*) from onceward_outcomes where state = 'ambiguous'),
  (select count(*) from onceward_outcomes where state = 'running' and onceward_now() >= until_at)
