-- Look at so many letters before a number, the newest first, and return those wanted and the last one looked at.
with chosen as (
  select id from (
    select id from onceward_dead where :state is null and id < :before order by id desc limit :scan
  )
  union all
  select id from (
    select id from onceward_dead where :cursor is null and state = :state and id < :before order by id desc limit :scan
  )
  union all
  select id from (
    select id from onceward_dead where state = :state and cursor_name = :cursor and id < :before
    order by id desc limit :scan
  )
),
judged as (
  select
    letter.*,
    (:cursor is null or cursor_name = :cursor) and (:key is null or key = :key)
    and (:since is null or dead_at >= :since)
    and (:words is null or instr(lower(cursor_name), lower(:words)) > 0 or instr(lower(position), lower(:words)) > 0
      or instr(lower(coalesce(key, '')), lower(:words)) > 0 or instr(lower(error_type), lower(:words)) > 0
      or instr(lower(error_message), lower(:words)) > 0) as is_wanted
  from (
    select id, cursor_name, position, key, state, error_type, error_message, attempt_count, first_failed_at, dead_at,
      redrive_count, changed_at, changed_by, reason, length(raw) as raw_size
    from chosen cross join onceward_dead using (id)
  ) as letter
)
select id, is_wanted, (select count(*) from chosen), id, cursor_name, position, key, state, error_type, error_message,
  attempt_count, first_failed_at, dead_at, redrive_count, changed_at, changed_by, reason, raw_size
from judged
where is_wanted or id = (select min(id) from chosen)
order by id desc
limit :limit
