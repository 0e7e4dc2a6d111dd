-- Alerts: the values that are compared with thresholds, and the alerts that are open, fired and delivered.

-- name: alert_begin
-- Open a pending alert for a cursor above the threshold of a rule; it fires if the cursor stays above.
insert into onceward_alerts (id, rule, kind, cursor_name, state, value, threshold, {{ event(pending) }})
values (:id, :rule, :kind, :cursor, 'pending', :value, :threshold, {{ event_now }})

-- name: alert_clear
-- Clear an alert that fired.
update onceward_alerts set state = 'cleared', cleared_at = {{ now }} where id = :id and state = 'firing'

-- name: alert_counts
-- Count the firing alerts by kind.
select kind, count(*) from onceward_alerts where state <> 'cleared' and state = 'firing' group by kind

-- name: alert_dead
-- Count each cursor's dead letters of the last :window seconds that are still dead.
select cursor_name, count(*)
-- Without the index hint SQLite reads every dead letter: it has no statistics about recent ones.
from onceward_dead {{ indexed_by(onceward_dead_lately) }}
where state = 'dead' and dead_at > {{ ago(:window) }}
group by cursor_name

-- name: alert_drop
-- Delete an alert that never fired.
delete from onceward_alerts where id = :id and state = 'pending'

-- name: alert_errors
-- Return each cursor's number of failures since its last success, unless 0.
select cursor_name, error_count
from cursor_positions
where error_count > 0 and substr(cursor_name, 1, 1) <> '~'

-- name: alert_fire
-- Change a pending alert to firing.
update onceward_alerts
set state = 'firing', value = :value, threshold = :threshold, fired_at = {{ now }}
where id = :id and state = 'pending'

-- name: alert_lag
-- Return the lag in seconds of every measured cursor that lags.
select cursor_name, lag_seconds + {{ elapsed(measured) }}
from onceward_measures
where lag_seconds is not null and coalesce(lag_messages, 1) > 0 and substr(cursor_name, 1, 1) <> '~'

-- name: alert_list
-- Return alerts: open ones first, then the newest.
select id, rule, kind, cursor_name, state, value, threshold, {{ text(pending_at) }},
  {{ text(fired_at) }}, {{ text(fired_sent_at) }}, {{ text(cleared_at) }},
  {{ text(cleared_sent_at) }}
from onceward_alerts
order by state = 'cleared', pending_at desc, id limit :limit

-- name: alert_open
-- Return the open alerts and the age of each in seconds.
select id, rule, cursor_name, state, {{ elapsed(pending) }}
from onceward_alerts
where state <> 'cleared'
order by rule, cursor_name

-- name: alert_parked
-- Count each cursor's messages that wait for a retry, or are blocked by one that does.
select name, max(messages) from (
  select name, number as messages from onceward_counts where kind = 'parked'
  union all
  select held.cursor_name, {{ greatest }}(1, coalesce(measure.lag_messages, 1))
  from (select distinct cursor_name from onceward_attempts where substr(cursor_name, 1, 1) <> '~') as held
  left join onceward_measures as measure on measure.cursor_name = held.cursor_name
) as waiting
group by name order by name

-- name: alert_prune
-- Delete alerts that cleared more than :days days ago, delivered or not.
delete from onceward_alerts
where state = 'cleared' and cleared_at < {{ ago(86400.0 * :days) }}

-- name: alert_sent
-- Record that an alert's firing or clearing was delivered.
update onceward_alerts set
  fired_sent_at = case when cast(:event as text) = 'fired' then coalesce(fired_sent_at, {{ now }})
    else fired_sent_at end,
  cleared_sent_at = case when cast(:event as text) = 'cleared' then coalesce(cleared_sent_at, {{ now }})
    else cleared_sent_at end
where id = :id

-- name: alert_steals
-- Count each cursor's takeovers in the last :window seconds.
select cursor_name, count(*)
from cursor_history
where kind = 'steal' and substr(cursor_name, 1, 1) <> '~' and happened_at > {{ ago(:window) }}
-- Not in index order: that index has every past entry.
group by {{ unindexed }}cursor_name

-- name: alert_unsent
-- Return alerts whose firing or clearing was not delivered, oldest first, and the age of each firing.
select id, rule, kind, cursor_name, state, value, threshold, {{ text(pending_at) }},
  {{ text(fired_at) }}, {{ text(fired_sent_at) }}, {{ text(cleared_at) }},
  {{ text(cleared_sent_at) }}, {{ since(fired_at) }}
from onceward_alerts
where fired_at is not null and (fired_sent_at is null or (cleared_at is not null and cleared_sent_at is null))
order by fired_at limit :limit
