-- Dual cursors: arrival counter, read position, processed position per group, batches in flight.

-- name: dual_advance_read
-- Move the read cursor forward, never back.
insert into onceward_dual_reads as r (dual_name, read_position, updated_at) values (:dual, :position, {{ now }})
on conflict (dual_name) do update set read_position = excluded.read_position, updated_at = excluded.updated_at
where r.read_position < excluded.read_position

-- name: dual_arrived
-- Record a group's latest arrival number; the counter's lock makes this the only writer.
insert into onceward_dual_arrivals (dual_name, group_name, last_arrived) values (:dual, :group, :position)
on conflict (dual_name, group_name) do update set last_arrived = excluded.last_arrived

-- name: dual_batch
-- Read the batch that a group has in flight.
select group_name, number, previous_position, position, output_position, items, started_at
from onceward_dual_batches where dual_name = :dual and group_name = :group

-- name: dual_batches
-- List the batches in flight, oldest message first.
select group_name, number, previous_position, position, output_position, items, started_at
from onceward_dual_batches where dual_name = :dual order by previous_position, group_name

-- name: dual_begin
-- Record a batch as in flight, with its rollback position.
insert into onceward_dual_batches (dual_name, group_name, number, previous_position, position, items, started_at)
values (:dual, :group, :number, :previous, :position, :items, {{ now }})

-- name: dual_end
-- End the batch in flight.
delete from onceward_dual_batches where dual_name = :dual and group_name = :group and number = :number

-- name: dual_extend
-- Extend the batch in flight by more messages.
update onceward_dual_batches set position = :position, items = :items
where dual_name = :dual and group_name = :group and number = :number

-- name: dual_group
-- Read a group's processed position, and whether a batch is in flight.
select g.processed_position, b.number
from onceward_dual_groups as g
left join onceward_dual_batches as b on b.dual_name = g.dual_name and b.group_name = g.group_name
where g.dual_name = :dual and g.group_name = :group

-- name: dual_groups
-- List the groups with unprocessed messages or a batch in flight, longest waiting first.
with groups as (
  select group_name, max(processed_position) as processed_position, max(last_arrived) as last_arrived
  from (
    select group_name, processed_position, null as last_arrived
    from onceward_dual_groups where dual_name = :dual
    union all
    select group_name, 0, last_arrived
    from onceward_dual_arrivals where dual_name = :dual
  ) as known
  group by group_name
)
select g.group_name, g.processed_position, coalesce(r.read_position, 0), b.number
from groups as g
left join onceward_dual_reads as r on r.dual_name = :dual
left join onceward_dual_batches as b on b.dual_name = :dual and b.group_name = g.group_name
where b.number is not null or (
  g.processed_position < coalesce(r.read_position, 0)
  and g.processed_position < coalesce(g.last_arrived, g.processed_position + 1))
order by g.processed_position, g.group_name

-- name: dual_move
-- Move a group's processed cursor, forward or back.
update onceward_dual_groups set processed_position = :position, last_batch = :number
where dual_name = :dual and group_name = :group

-- name: dual_note
-- Record the rollback of a group in the cursors' history: batch, source and target position.
insert into cursor_history (cursor_name, kind, happened_at, actor, reason, from_position, to_position, epoch)
values (:name, 'rollback', {{ now }}, :actor, :reason, :from_position, :to_position, :number)

-- name: dual_output
-- Record that output was sent: messages up to this position are not rolled back any more.
update onceward_dual_batches set output_position = {{ greatest }}(coalesce(output_position, 0), :position)
where dual_name = :dual and group_name = :group and number = :number

-- name: dual_output_set
-- Correct the position up to which output was sent, after some was not delivered.
update onceward_dual_batches set output_position = cast(:position as bigint)
where dual_name = :dual and group_name = :group and number = :number

-- name: dual_positions
-- Read the latest arrival number and the read position.
select coalesce((select last_sequence from onceward_dual_counters where dual_name = :dual), 0),
  coalesce((select read_position from onceward_dual_reads where dual_name = :dual), 0)

-- name: dual_sequence
-- Assign the next arrival number; the counter stays locked until commit, so numbers are in commit order.
insert into onceward_dual_counters as c (dual_name, last_sequence) values (:dual, 1)
on conflict (dual_name) do update set last_sequence = c.last_sequence + 1
returning last_sequence

-- name: dual_lock_group
-- Lock a group's state until the transaction ends, and return it.
insert into onceward_dual_groups as g (dual_name, group_name, updated_at) values (:dual, :group, {{ now }})
on conflict (dual_name, group_name) do update set updated_at = excluded.updated_at
returning processed_position, last_batch

-- name: dual_sequence_lock
-- Lock the arrival counter until the transaction ends, before anything that a later draw would wait for.
update onceward_dual_counters set last_sequence = last_sequence where dual_name = :dual
