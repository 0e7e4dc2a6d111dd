-- Return how many seconds behind each cursor is that is behind; without a measure, nobody knows.
select cursor_name, lag_seconds + greatest(0, extract(epoch from onceward_now() - measured_at))::float8
from onceward_measures
where lag_seconds is not null and coalesce(lag_messages, 1) > 0 and not starts_with(cursor_name, '~')
