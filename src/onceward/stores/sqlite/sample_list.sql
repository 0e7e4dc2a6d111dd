-- List how a cursor was measured in the last so many seconds, newest first.
select taken_at, position, processed_count, lag_messages, lag_seconds
from onceward_samples
where cursor_name = :name and taken_at > strftime('%Y-%m-%dT%H:%M:%fZ', :wall, -:seconds || ' seconds')
order by taken_at desc limit :limit
