-- Return what was measured of all cursors, how long ago, and what was done since: processed, or moved by hand.
select measure.cursor_name, lag_messages, lag_seconds, onceward_time_text(oldest_at), held_back_by,
  rate_per_minute, onceward_time_text(measured_at),
  greatest(0, extract(epoch from onceward_now() - measured_at))::float8,
  cursor.processed_count - measure.processed_count,
  cursor.last_position is distinct from measure.position and cursor.processed_count = measure.processed_count
from onceward_measures as measure
join cursor_positions as cursor on cursor.cursor_name = measure.cursor_name
order by measure.cursor_name limit :limit
