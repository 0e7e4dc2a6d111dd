-- The latest arrival of each group, apart from how far the group is processed: it is written only while the
-- arrival counter is locked, so that whoever draws a number waits for nobody who has a group's turn.
create table onceward_dual_arrivals (
  dual_name text not null,
  group_name text not null,
  last_arrived integer not null,
  primary key (dual_name, group_name)
) strict;
insert into onceward_dual_arrivals (dual_name, group_name, last_arrived)
select dual_name, group_name, last_arrived from onceward_dual_groups where last_arrived is not null;
alter table onceward_dual_groups drop column last_arrived;
