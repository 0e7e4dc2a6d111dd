-- Return alerts that fired or ended and were not told, the oldest first, and how long ago each fired.
select id, rule, kind, cursor_name, state, value, threshold, onceward_time_text(pending_at),
  onceward_time_text(fired_at), onceward_time_text(fired_sent_at), onceward_time_text(cleared_at),
  onceward_time_text(cleared_sent_at), extract(epoch from onceward_now() - fired_at)::float8
from onceward_alerts
where fired_at is not null and (fired_sent_at is null or (cleared_at is not null and cleared_sent_at is null))
order by fired_at limit :limit
