-- The order in which keys came to be known. A column without a value, and a default for the rows that come: neither
-- writes the table anew, and it is locked for a moment only.
create sequence onceward_outcomes_arrival;
alter table onceward_outcomes add column sequence bigint;
alter table onceward_outcomes alter column sequence set default nextval('onceward_outcomes_arrival');
alter sequence onceward_outcomes_arrival owned by onceward_outcomes.sequence;
-- Those of before get their numbers next, from 1: there is more room than they need, wasted numbers and all.
select setval('onceward_outcomes_arrival', 1099511627776) where exists (select 1 from onceward_outcomes);
create sequence onceward_outcomes_before;
