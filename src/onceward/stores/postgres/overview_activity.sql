-- Return what happened last: to cursors by hand or by take-over, refused writes, dead letters, alerts, actions.
select onceward_time_text(at), kind, name, who, what, epoch
from (
  (select happened_at as at, kind, cursor_name as name, actor as who, reason as what, epoch
    from cursor_history order by id desc limit :limit)
  union all
  (select happened_at, 'refused', cursor_name, worker, what, epoch
    from onceward_refusals order by id desc limit :limit)
  union all
  (select dead_at, 'dead', cursor_name, id::text, error_type || ': ' || error_message, null
    from onceward_dead where state = 'dead' order by id desc limit :limit)
  union all
  (select fired_at, 'alert', cursor_name, rule, kind, null
    from onceward_alerts where fired_at is not null order by fired_at desc limit :limit)
  union all
  (select happened_at, 'action', target, actor, action || ' ' || outcome, null
    from onceward_audit order by id desc limit :limit)
) as happened
order by at desc limit :limit
