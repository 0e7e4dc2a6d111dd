-- Keys by the order in which they came, and the few that are not over, found among the many that are.
drop sequence onceward_outcomes_before;
create unique index onceward_outcomes_sequence on onceward_outcomes (sequence);
create index onceward_outcomes_open on onceward_outcomes (state, sequence)
  where state = 'running' or state = 'ambiguous';
