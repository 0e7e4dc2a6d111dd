-- Console: the audit log, the overview, counts, and cheap fingerprints that change when data changes.

-- name: audit_add
-- Record an action of the console; one that may be run again under its key is recorded once.
insert into onceward_audit (happened_at, actor, via, action, target, request_id, outcome, details, result)
select {{ now }}, :actor, :via, :action, :target, :request_id, :outcome, :details, :result
where not :is_repeatable or not exists (
  select 1 from onceward_audit
  where request_id = :request_id and action = :action and target = :target and outcome = 'done'
)

-- name: audit_page
-- Return actions before a number, the newest first.
select id, {{ text(happened_at) }}, actor, via, action, target, request_id, outcome, details, result
from onceward_audit where id < :before order by id desc limit :limit

-- name: overview_activity
-- Return the latest events: moves and takeovers of cursors, rejected writes, dead letters, alerts, actions.
select {{ text(at) }}, kind, name, who, what, epoch
from (
  select * from (select happened_at as at, kind, cursor_name as name, actor as who, reason as what, epoch
    from cursor_history order by id desc limit :limit) as moves
  union all
  select * from (select happened_at, 'refused', cursor_name, worker, what, epoch
    from onceward_rejected_writes order by id desc limit :limit) as rejected
  union all
  select * from (select dead_at, 'dead', cursor_name, cast(id as text), error_type || ': ' || error_message,
    cast(null as bigint) from onceward_dead where state = 'dead' order by id desc limit :limit) as dead
  union all
  select * from (select fired_at, 'alert', cursor_name, rule, kind, cast(null as bigint)
    from onceward_alerts where fired_at is not null order by fired_at desc limit :limit) as fired
  union all
  select * from (select happened_at, 'action', target, actor, action || ' ' || outcome, cast(null as bigint)
    from onceward_audit order by id desc limit :limit) as acted
) as happened
order by at desc limit :limit

-- name: overview_behind
-- Return the cursors without a holder whose oldest message waits longest: seconds, messages, last owner, paused.
select lagging.cursor_name, {{ seconds_waited(waiting_since) }}, lag_messages,
  cursor.lease_owner, coalesce(cursor.paused, false)
from (
  select cursor_name, waiting_since, lag_messages from onceward_measures
  where waiting_since is not null order by waiting_since limit 10000
) as lagging
join cursor_positions as cursor on cursor.cursor_name = lagging.cursor_name
where not {{ is_held }}
order by waiting_since, lagging.cursor_name limit :limit

-- name: overview_lag
-- Return how long the oldest unprocessed message has waited; null when none waits.
select {{ seconds_waited(min(waiting_since)) }} from onceward_measures where waiting_since is not null

-- name: overview_leases
-- Count cursors: all, held, with an expired lease, paused. Reads all of them.
select count(*), count(*) filter (where {{ is_held }}),
  count(*) filter (where lease_owner is not null and not {{ is_held }}),
  count(*) filter (where paused), cast(coalesce(sum(processed_count), 0) as bigint)
from cursor_positions where substr(cursor_name, 1, 1) <> '~'

-- name: area_change_alerts
-- Return values that change when an alert opens, fires or clears.
select (select count(*) from onceward_alerts where state <> 'cleared'),
  (select count(*) from onceward_alerts where state <> 'cleared' and state = 'firing'),
  (select {{ exact_text(max(coalesce(fired_at, pending_at))) }} from onceward_alerts where state <> 'cleared'),
  (select {{ exact_text(max(cleared_at)) }} from onceward_alerts where state = 'cleared')

-- name: area_change_audit
-- Return a value that changes with every action in the console.
select max(id) from onceward_audit

-- name: area_change_cursors
-- Return values that change when a cursor moves, changes hands, expires or is measured.
select count(*), sum(processed_count), sum(lease_epoch), count(*) filter (where paused), sum(error_count),
  count(*) filter (where {{ is_held }}), (select {{ exact_text(max(measured_at)) }} from onceward_measures)
from cursor_positions

-- name: area_change_dead
-- Return values that change when a dead letter is written, requeued or dropped.
select (select max(id) from onceward_dead),
  (select cast(coalesce(sum(number), 0) as bigint) from onceward_counts where kind = 'dead')

-- name: area_change_dispatch
-- Return values that change when a message arrives or is delivered, or an agent replies or ends.
select (select last_sequence from onceward_dual_counters where dual_name = 'dispatch'),
  (select read_position from onceward_dual_reads where dual_name = 'dispatch'),
  (select sum(processed_position) from onceward_dual_groups where dual_name = 'dispatch'),
  (select count(*) from onceward_dual_batches where dual_name = 'dispatch'),
  (select max(id) from dispatch_deliveries), (select max(id) from dispatch_outbox),
  (select count(*) from dispatch_outbox where state in ('pending', 'sending')),
  (select {{ exact_text(max(updated_at)) }} from dispatch_groups), (select count(*) from dispatch_groups)

-- name: area_change_memory
-- Return values that change when the memory grows or something is deleted.
select (select max(id) from memory_entities), (select max(id) from memory_observations),
  (select max(id) from memory_relations), (select max(id) from memory_changes)

-- name: area_change_outcomes
-- Return values that change when a key is claimed or settled, or a claim expires.
select (select max({{ outcome_number }}) from onceward_outcomes),
  (select count(*) from onceward_outcomes where state = 'running' or state = 'ambiguous'),
  (select count(*) from onceward_outcomes where state = 'ambiguous'),
  (select count(*) from onceward_outcomes where state = 'running' and not {{ is_running() }})

-- name: area_change_workers
-- Return values that change when a worker starts, stops or misses its heartbeat, or a lease changes.
select (select count(*) from onceward_workers), (select count(*) from onceward_workers where stopped_at is null),
  (select count(*) from onceward_workers where stopped_at is null and seen_at < {{ ago(15) }}),
  (select max(id) from onceward_grants), (select max(id) from onceward_rejected_writes),
  (select count(*) from cursor_positions where lease_owner is not null),
  (select count(*) from cursor_positions where {{ is_held }})

-- name: area_count_alerts
-- Count the alerts that fire now.
select count(*) from onceward_alerts where state <> 'cleared' and state = 'firing'

-- name: area_count_conversations
-- Count dead letters of chat.
select cast(coalesce(sum(number), 0) as bigint) from onceward_counts
where kind = 'dead' and substr(name, 1, 9) = 'dispatch/'

-- name: area_count_dead
-- Count dead letters.
select cast(coalesce(sum(number), 0) as bigint) from onceward_counts where kind = 'dead'

-- name: area_count_outcomes
-- Count running and ambiguous outcomes.
select
  count(*) filter (where {{ outcome_state }} = 'running'),
  count(*) filter (where {{ outcome_state }} = 'ambiguous')
from onceward_outcomes
where state = 'running' or state = 'ambiguous'

-- name: area_count_parked
-- Count parked messages.
select cast(coalesce(sum(number), 0) as bigint) from onceward_counts where kind = 'parked'
