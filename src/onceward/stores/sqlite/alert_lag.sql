-- Return how many seconds behind each cursor is that is behind; without a measure, nobody knows.
select cursor_name,
  lag_seconds + max(0.0, case when measured_boot = :boot then :now - measured_seconds
    else (julianday(:wall) - julianday(measured_at)) * 86400.0 end)
from onceward_measures
where lag_seconds is not null and coalesce(lag_messages, 1) > 0 and substr(cursor_name, 1, 1) <> '~'
