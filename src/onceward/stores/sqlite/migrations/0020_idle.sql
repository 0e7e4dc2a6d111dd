-- What is asked again and again while nothing happens costs the same, however much is parked, dead or recorded.

-- How many rows there are by name: parked messages and dead letters of a cursor, given-up deliveries of a group.
-- Kept by triggers, in the transaction that changes the rows: a poll reads a number instead of counting.
-- A name of which nothing is left has no row.
create table onceward_counts (
  kind text not null check (kind in ('parked', 'dead', 'delivery')),
  name text not null,
  number integer not null,
  primary key (kind, name)
) strict, without rowid;
insert into onceward_counts (kind, name, number)
  select 'parked', cursor_name, count(*) from onceward_parked group by cursor_name
  union all
  select 'dead', cursor_name, count(*) from onceward_dead where state = 'dead' group by cursor_name
  union all
  select 'delivery', group_name, count(*) from dispatch_deliveries where state = 'dead' group by group_name;

create trigger onceward_parked_added after insert on onceward_parked begin
  insert into onceward_counts (kind, name, number) values ('parked', new.cursor_name, 1)
    on conflict (kind, name) do update set number = number + 1;
end;
create trigger onceward_parked_removed after delete on onceward_parked begin
  update onceward_counts set number = number - 1 where kind = 'parked' and name = old.cursor_name;
  delete from onceward_counts where kind = 'parked' and name = old.cursor_name and number = 0;
end;

create trigger onceward_dead_added after insert on onceward_dead when new.state = 'dead' begin
  insert into onceward_counts (kind, name, number) values ('dead', new.cursor_name, 1)
    on conflict (kind, name) do update set number = number + 1;
end;
create trigger onceward_dead_again after update of state on onceward_dead
when new.state = 'dead' and old.state <> 'dead' begin
  insert into onceward_counts (kind, name, number) values ('dead', new.cursor_name, 1)
    on conflict (kind, name) do update set number = number + 1;
end;
create trigger onceward_dead_settle after update of state on onceward_dead
when new.state <> 'dead' and old.state = 'dead' begin
  update onceward_counts set number = number - 1 where kind = 'dead' and name = old.cursor_name;
  delete from onceward_counts where kind = 'dead' and name = old.cursor_name and number = 0;
end;
create trigger onceward_dead_removed after delete on onceward_dead when old.state = 'dead' begin
  update onceward_counts set number = number - 1 where kind = 'dead' and name = old.cursor_name;
  delete from onceward_counts where kind = 'dead' and name = old.cursor_name and number = 0;
end;

create trigger dispatch_deliveries_added after insert on dispatch_deliveries when new.state = 'dead' begin
  insert into onceward_counts (kind, name, number) values ('delivery', new.group_name, 1)
    on conflict (kind, name) do update set number = number + 1;
end;
create trigger dispatch_deliveries_dead_again after update of state on dispatch_deliveries
when new.state = 'dead' and old.state <> 'dead' begin
  insert into onceward_counts (kind, name, number) values ('delivery', new.group_name, 1)
    on conflict (kind, name) do update set number = number + 1;
end;
create trigger dispatch_deliveries_settle after update of state on dispatch_deliveries
when new.state <> 'dead' and old.state = 'dead' begin
  update onceward_counts set number = number - 1 where kind = 'delivery' and name = old.group_name;
  delete from onceward_counts where kind = 'delivery' and name = old.group_name and number = 0;
end;
create trigger dispatch_deliveries_removed after delete on dispatch_deliveries when old.state = 'dead' begin
  update onceward_counts set number = number - 1 where kind = 'delivery' and name = old.group_name;
  delete from onceward_counts where kind = 'delivery' and name = old.group_name and number = 0;
end;

-- The heads that are due, and the next one, of one cursor: by boot seconds within a boot, else by wall time.
create index onceward_parked_due on onceward_parked (cursor_name, due_boot, due_seconds) where is_head;
create index onceward_parked_due_wall on onceward_parked (cursor_name, due_boot, due_at) where is_head;
-- Dead letters that an operator has dealt with, alerts that are over, and what happened to cursors by itself: the
-- oldest first.
create index idx_cursor_history_passing on cursor_history (happened_at) where kind <> 'seek' and kind <> 'undo';
create index onceward_dead_settled on onceward_dead (changed_at) where state <> 'dead';
create index onceward_alerts_cleared on onceward_alerts (cleared_at) where state = 'cleared';
-- Results and tombstones apart: many tombstones do not stand before the few results that expire.
create index onceward_outcomes_ends on onceward_outcomes (state, until_at)
  where until_at is not null and state <> 'running' and state <> 'ambiguous';
drop index onceward_outcomes_until;
