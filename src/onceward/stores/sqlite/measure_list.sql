-- Return what was measured of all cursors, how long ago, and what was done since: processed, or moved by hand.
select measure.cursor_name, lag_messages, lag_seconds, oldest_at, held_back_by, rate_per_minute, measured_at,
  max(0.0, case when measured_boot = :boot then :now - measured_seconds
    else (julianday(:wall) - julianday(measured_at)) * 86400.0 end),
  cursor.processed_count - measure.processed_count,
  cursor.last_position is not measure.position and cursor.processed_count = measure.processed_count
from onceward_measures as measure
join cursor_positions as cursor on cursor.cursor_name = measure.cursor_name
order by measure.cursor_name limit :limit
