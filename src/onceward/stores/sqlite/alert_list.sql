-- Return alerts, those that are not over first, then the newest.
select id, rule, kind, cursor_name, state, value, threshold, pending_at, fired_at, fired_sent_at, cleared_at,
  cleared_sent_at
from onceward_alerts
order by state = 'cleared', pending_at desc, id limit :limit
