-- Note one more failed attempt of a parked message as it was when it was read, and when the next is due.
update onceward_parked set
  attempt = attempt + 1,
  due_at = t.moment + :delay * interval '1 second',
  first_failed_at = coalesce(first_failed_at, t.moment),
  failures = (case when jsonb_array_length(failures) >= :kept then failures - 0 else failures end)
    || jsonb_build_array(jsonb_build_object(
      'attempt', attempt + 1, 'at', onceward_time_text(t.moment), 'error', :error::text))
from (select onceward_now() as moment) as t
where id = :id and attempt = :attempt and is_head
returning id
