-- Count the messages of each cursor that wait for a retry, or behind one that does.
select name, max(messages) from (
  select name, number as messages from onceward_counts where kind = 'parked'
  union all
  select held.cursor_name, greatest(1, coalesce(measure.lag_messages, 1))
  from (select distinct cursor_name from onceward_attempts where not starts_with(cursor_name, '~')) as held
  left join onceward_measures as measure on measure.cursor_name = held.cursor_name
) as waiting
group by name order by name
