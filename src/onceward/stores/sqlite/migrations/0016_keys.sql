-- The few keys that are not over, found among the many that are.
create index onceward_outcomes_open on onceward_outcomes (state) where state = 'running' or state = 'ambiguous';
