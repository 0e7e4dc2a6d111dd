-- Return alerts, those that are not over first, then the newest.
select id, rule, kind, cursor_name, state, value, threshold, onceward_time_text(pending_at),
  onceward_time_text(fired_at), onceward_time_text(fired_sent_at), onceward_time_text(cleared_at),
  onceward_time_text(cleared_sent_at)
from onceward_alerts
order by state = 'cleared', pending_at desc, id limit :limit
