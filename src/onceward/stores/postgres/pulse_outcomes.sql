-- Return what is another when a key came, or the work on one ended.
select (select max(sequence) from onceward_outcomes),
  (select count(*) from onceward_outcomes where state = 'running' or state = 'ambiguous'),
  (select count(*) from onceward_outcomes where state = 'ambiguous')
