-- Count the messages of each cursor that wait for a retry, or behind one that does, up to so many.
-- One cursor after another by its index: a count of all would cost more the more is parked.
with recursive parked (name) as (
  select min(cursor_name) from onceward_parked
  union all
  select (select min(cursor_name) from onceward_parked where cursor_name > name) from parked where name is not null
)
select name, max(messages) from (
  select name, (
    select count(*) from (select 1 from onceward_parked where cursor_name = name limit :most) as counted) as messages
  from parked where name is not null
  union all
  select held.cursor_name, max(1, coalesce(measure.lag_messages, 1))
  from (select distinct cursor_name from onceward_attempts where substr(cursor_name, 1, 1) <> '~') as held
  left join onceward_measures as measure on measure.cursor_name = held.cursor_name
) as waiting
group by name order by name
