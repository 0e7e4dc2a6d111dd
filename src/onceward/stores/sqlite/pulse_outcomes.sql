-- Return what is another when a key came, the work on one ended, or fell silent.
select (select max(rowid) from onceward_outcomes),
  (select count(*) from onceward_outcomes where state = 'running' or state = 'ambiguous'),
  (select count(*) from onceward_outcomes where state = 'ambiguous'),
  (select count(*) from onceward_outcomes
    where state = 'running' and not (until_boot is :boot and :now < until_seconds))
