-- Look at so many letters before a number, the newest first, and return those wanted and the last one looked at.
with scanned as (
  (
    select * from onceward_dead where :state::text is null and id < :before::bigint order by id desc limit :scan
  )
  union all
  (
    select * from onceward_dead where :cursor::text is null and state = :state::text and id < :before::bigint
    order by id desc limit :scan
  )
  union all
  (
    select * from onceward_dead where state = :state::text and cursor_name = :cursor::text and id < :before::bigint
    order by id desc limit :scan
  )
),
judged as (
  select
    *,
    (:cursor::text is null or cursor_name = :cursor) and (:key::text is null or key = :key)
    and (:since::timestamptz is null or dead_at >= :since::timestamptz)
    and (:words::text is null or position(lower(:words) in lower(cursor_name)) > 0
      or position(lower(:words) in lower("position")) > 0 or position(lower(:words) in lower(coalesce(key, ''))) > 0
      or position(lower(:words) in lower(error_type)) > 0 or position(lower(:words) in lower(error_message)) > 0)
      as is_wanted
  from scanned
)
select id, is_wanted, (select count(*) from scanned), id, cursor_name, "position", key, state, error_type,
  error_message, attempt_count, first_failed_at, dead_at, redrive_count, changed_at, changed_by, reason, length(raw)
from judged
where is_wanted or id = (select min(id) from scanned)
order by id desc
limit :limit
