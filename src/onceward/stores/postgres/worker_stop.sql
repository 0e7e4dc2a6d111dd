-- Tell that a worker ended, and does not come back.
update onceward_workers set stopped_at = moment, seen_at = moment
from (select onceward_now() as moment) as now
where worker = :worker
