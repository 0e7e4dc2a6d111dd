-- Return the alerts that are not over, and for how long each has been one.
select id, rule, cursor_name, state,
  max(0.0, case when pending_boot = :boot then :now - pending_seconds
    else (julianday(:wall) - julianday(pending_at)) * 86400.0 end)
from onceward_alerts
where state <> 'cleared'
order by rule, cursor_name
