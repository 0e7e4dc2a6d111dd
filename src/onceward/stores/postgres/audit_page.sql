-- Return actions before a number, the newest first.
select id, onceward_time_text(happened_at), actor, via, action, target, request_id, outcome, details, result
from onceward_audit where id < :before order by id desc limit :limit
