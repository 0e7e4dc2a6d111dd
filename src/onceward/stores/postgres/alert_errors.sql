-- Return how often each cursor failed since its last success, where it did.
select cursor_name, error_count
from cursor_positions
where error_count > 0 and not starts_with(cursor_name, '~')
