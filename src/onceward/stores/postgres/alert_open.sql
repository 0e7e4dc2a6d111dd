-- Return the alerts that are not over, and for how long each has been one.
select id, rule, cursor_name, state, greatest(0, extract(epoch from onceward_now() - pending_at))::float8
from onceward_alerts
where state <> 'cleared'
order by rule, cursor_name
