-- What is asked again and again while nothing happens costs the same, however much is parked, dead or recorded.

-- How many rows there are by name: parked messages and dead letters of a cursor, given-up deliveries of a group.
-- Kept by triggers, in the transaction that changes the rows: a poll reads a number instead of counting.
-- A name of which nothing is left has no row.
create table onceward_counts (
  kind text not null check (kind in ('parked', 'dead', 'delivery')),
  name text not null,
  number bigint not null,
  primary key (kind, name)
);

-- Add the rows that a statement changed, in the order of names, so that two transactions cannot wait for each other.
create function onceward_count(_kind text, _names text[], _by integer) returns void
  language plpgsql
  as $$
    begin
      insert into onceward_counts as counted (kind, name, number)
        select _kind, each, _by * count(*) from unnest(_names) as each group by each order by each
        on conflict (kind, name) do update set number = counted.number + excluded.number;
      if _by < 0 then
        delete from onceward_counts where kind = _kind and name = any (_names) and number = 0;
      end if;
    end
  $$;

create function onceward_count_parked() returns trigger
  language plpgsql
  as $$
    begin
      perform onceward_count('parked', array(select cursor_name from changed),
        case when tg_op = 'INSERT' then 1 else -1 end);
      return null;
    end
  $$;

create function onceward_count_dead() returns trigger
  language plpgsql
  as $$
    begin
      if tg_op <> 'DELETE' then
        perform onceward_count('dead', array(select cursor_name from after where state = 'dead'), 1);
      end if;
      if tg_op <> 'INSERT' then
        perform onceward_count('dead', array(select cursor_name from before where state = 'dead'), -1);
      end if;
      return null;
    end
  $$;

create function onceward_count_deliveries() returns trigger
  language plpgsql
  as $$
    begin
      if tg_op <> 'DELETE' then
        perform onceward_count('delivery', array(select group_name from after where state = 'dead'), 1);
      end if;
      if tg_op <> 'INSERT' then
        perform onceward_count('delivery', array(select group_name from before where state = 'dead'), -1);
      end if;
      return null;
    end
  $$;

-- Triggers first: each locks its table against writers until all that is there has been counted.
create trigger onceward_parked_added after insert on onceward_parked
  referencing new table as changed for each statement execute function onceward_count_parked();
create trigger onceward_parked_removed after delete on onceward_parked
  referencing old table as changed for each statement execute function onceward_count_parked();
create trigger onceward_dead_added after insert on onceward_dead
  referencing new table as after for each statement execute function onceward_count_dead();
create trigger onceward_dead_changed after update on onceward_dead
  referencing old table as before new table as after for each statement execute function onceward_count_dead();
create trigger onceward_dead_removed after delete on onceward_dead
  referencing old table as before for each statement execute function onceward_count_dead();
create trigger dispatch_deliveries_added after insert on dispatch_deliveries
  referencing new table as after for each statement execute function onceward_count_deliveries();
create trigger dispatch_deliveries_changed after update on dispatch_deliveries
  referencing old table as before new table as after for each statement execute function onceward_count_deliveries();
create trigger dispatch_deliveries_removed after delete on dispatch_deliveries
  referencing old table as before for each statement execute function onceward_count_deliveries();
insert into onceward_counts (kind, name, number)
  select 'parked', cursor_name, count(*) from onceward_parked group by cursor_name
  union all
  select 'dead', cursor_name, count(*) from onceward_dead where state = 'dead' group by cursor_name
  union all
  select 'delivery', group_name, count(*) from dispatch_deliveries where state = 'dead' group by group_name;

-- The heads that are due, and the next one, of one cursor.
create index onceward_parked_due on onceward_parked (cursor_name, due_at nulls first, sequence) where is_head;
-- Dead letters that an operator has dealt with, alerts that are over, and what happened to cursors by itself: the
-- oldest first.
create index idx_cursor_history_passing on cursor_history (happened_at) where kind <> 'seek' and kind <> 'undo';
create index onceward_dead_settled on onceward_dead (changed_at) where state <> 'dead';
create index onceward_alerts_cleared on onceward_alerts (cleared_at) where state = 'cleared';
-- Results and tombstones apart: many tombstones do not stand before the few results that expire.
create index onceward_outcomes_ends on onceward_outcomes (state, until_at)
  where until_at is not null and state <> 'running' and state <> 'ambiguous';
drop index onceward_outcomes_until;
