-- Count the take-overs of each cursor in the last so many seconds.
select cursor_name, count(*)
from cursor_history
where kind = 'steal' and substr(cursor_name, 1, 1) <> '~'
  and happened_at > strftime('%Y-%m-%dT%H:%M:%fZ', :wall, '-' || :window || ' seconds')
-- With a plus: not by the index that has them in this order, and every one of the past.
group by +cursor_name
