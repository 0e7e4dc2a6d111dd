-- List what late holders were refused in the last so many seconds, the latest first.
select cursor_name, onceward_time_text(happened_at), worker, epoch, current_epoch, current_owner, what
from (select * from onceward_refusals order by id desc limit :limit) as latest
where happened_at > onceward_now() - make_interval(secs => :seconds::float8)
order by id desc
