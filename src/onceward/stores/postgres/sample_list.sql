-- List how a cursor was measured in the last so many seconds, newest first.
select onceward_time_text(taken_at), position, processed_count, lag_messages, lag_seconds
from onceward_samples
where cursor_name = :name and taken_at > (select onceward_now()) - make_interval(secs => :seconds::float8)
order by taken_at desc limit :limit
