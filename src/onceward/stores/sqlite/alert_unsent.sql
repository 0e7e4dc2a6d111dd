-- Return alerts that fired or ended and were not told, the oldest first, and how long ago each fired.
select id, rule, kind, cursor_name, state, value, threshold, pending_at, fired_at, fired_sent_at, cleared_at,
  cleared_sent_at, (julianday(:wall) - julianday(fired_at)) * 86400.0
from onceward_alerts
where fired_at is not null and (fired_sent_at is null or (cleared_at is not null and cleared_sent_at is null))
order by fired_at limit :limit
