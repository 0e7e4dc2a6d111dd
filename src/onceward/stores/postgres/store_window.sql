-- Return the moment so many seconds ago, and now, by the clock that leases are decided by.
select onceward_time_text(moment - make_interval(secs => :seconds::float8)), onceward_time_text(moment)
from (select onceward_now() as moment) as now
