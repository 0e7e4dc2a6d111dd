-- Park a message at the end of its key's line, once; head if nobody stands there. No delay: due at once.
insert into onceward_parked (cursor_name, position, sequence, key, alone, is_head, raw, attempt,
  due_at, failures, first_failed_at, parked_at)
select :cursor, :position, :sequence, :key::text, :alone::boolean,
  :alone::boolean or not exists (select 1 from onceward_parked as o
    where o.cursor_name = :cursor and o.key = :key::text and not o.alone),
  :raw, :attempt::int,
  t.moment + :delay::float8 * interval '1 second',
  case when :error::text is null then :earlier::jsonb else :earlier::jsonb || jsonb_build_array(jsonb_build_object(
    'attempt', :attempt::int, 'at', onceward_time_text(t.moment), 'error', :error::text)) end,
  coalesce(:first_failed_at::timestamptz, case when :error::text is null then null else t.moment end), t.moment
from (select onceward_now() as moment) as t
on conflict (cursor_name, position) do nothing
returning id
