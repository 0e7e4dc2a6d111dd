-- Dispatch: groups, messages, deliveries to agents, and the outbox of their replies.

-- name: dispatch_conversation_start
-- Find the position after which the last :limit messages and replies of a group are, up to a position.
select p.place from (
  select m.place from (
    select changed_seq as place from dispatch_messages
    where group_name = :group and changed_seq <= :upto order by changed_seq desc limit :limit) as m
  union all
  select o.place from (
    select seq as place from dispatch_outbox
    where group_name = :group and seq <= :upto order by seq desc limit :limit) as o
) as p
order by p.place desc limit 1 offset :offset

-- name: dispatch_count_between
-- Count the messages of a group after one position and up to another, at most :limit.
select count(*) from (
  select 1 from dispatch_messages where group_name = :group and seq > :after and seq <= :upto limit :limit) as found

-- name: dispatch_delivery_agent
-- Record the process that works on a delivery, so that a restarted dispatcher can end it.
update dispatch_deliveries set agent = :agent where id = :id

-- name: dispatch_delivery_begin
-- Record the start of a delivery of messages to an agent.
insert into dispatch_deliveries (
  group_name, batch_number, state, attempt, first_seq, last_seq, started_at)
values (:group, :number, 'running', :attempt, :first_seq, :last_seq, {{ now }})
returning id

-- name: dispatch_delivery_dead
-- Turn a delivery that was rolled back into a dead letter: it is not delivered again.
update dispatch_deliveries set state = 'dead', last_seq = :last_seq where id = :id and state = 'rolled back'

-- name: dispatch_delivery_end
-- Record the result of a delivery.
update dispatch_deliveries
set state = :state, last_seq = :last_seq, error = :error, ended_at = {{ now }}
where id = :id and state = 'running'

-- name: dispatch_delivery_extend
-- Add messages to a delivery in flight.
update dispatch_deliveries set last_seq = :last_seq where id = :id and state = 'running'

-- name: dispatch_delivery_list
-- List the deliveries of a group, newest first.
select {{ delivery_columns }}
from dispatch_deliveries where group_name = :group order by batch_number desc limit :limit

-- name: dispatch_delivery_failures
-- List the latest deliveries of a group before one, newest first, in any state: the cost is bounded by :limit.
select attempt, {{ text(ended_at) }}, error, first_seq, state from dispatch_deliveries
where group_name = :group and batch_number < :number order by batch_number desc limit :limit

-- name: dispatch_delivery_running
-- List the deliveries in flight.
select {{ delivery_columns }}
from dispatch_deliveries where state = 'running'
-- Not in index order: that index has every past delivery.
order by {{ unindexed }}id

-- name: dispatch_delivery_show
-- Read a delivery.
select {{ delivery_columns }}
from dispatch_deliveries where id = :id

-- name: dispatch_group_add
-- Add a group; changes nothing if the name exists.
insert into dispatch_groups (
  name, channel, command, trigger_kind, trigger_word, workdir, idle_seconds, hard_seconds, created_at, updated_at)
values (:name, :channel, :command, :trigger_kind, :trigger_word, :workdir, :idle_seconds, :hard_seconds,
  {{ now }}, {{ now }})
on conflict (name) do nothing
returning name

-- name: dispatch_group_agent
-- Record which process is a group's agent; null for none.
update dispatch_groups set agent = cast(:agent as text) where name = :name

-- name: dispatch_group_agents
-- List the processes that were agents of groups.
select name, agent from dispatch_groups where agent is not null

-- name: dispatch_group_called
-- Record the latest message that triggers a group's agent.
update dispatch_groups set called_seq = {{ greatest }}(called_seq, :seq) where name = :name

-- name: dispatch_group_clear_nudge
-- Record that the dispatcher has examined a group.
update dispatch_groups set is_nudged = false where name = :name and is_nudged

-- name: dispatch_group_failed
-- Count a failure of a group, and delay its retry; new messages do not shorten the delay.
update dispatch_groups
set attempt_count = :attempt, last_error = :error, retry_at = {{ after(:seconds) }}, updated_at = {{ now }}
where name = :name

-- name: dispatch_group_list
-- List the groups.
select {{ group_columns }}
from dispatch_groups order by name

-- name: dispatch_group_nudge
-- Ask the dispatcher to examine a group although no message arrived.
update dispatch_groups set is_nudged = true where name = :name

-- name: dispatch_group_nudged
-- List the groups that the dispatcher was asked to examine.
select name from dispatch_groups where is_nudged order by name

-- name: dispatch_group_positions
-- Return the latest messages of a group up to two positions; 0 where there is none.
select coalesce((select max(seq) from dispatch_messages where group_name = :group and seq <= :arrived), 0),
  coalesce((select max(seq) from dispatch_messages where group_name = :group and seq <= :read), 0)

-- name: dispatch_group_remove
-- Delete a group; its messages stay.
delete from dispatch_groups where name = :name returning name

-- name: dispatch_group_reset_failures
-- Reset a group's failures after a success.
update dispatch_groups set attempt_count = 0, retry_at = null, last_error = null, updated_at = {{ now }}
where name = :name and (attempt_count > 0 or retry_at is not null)

-- name: dispatch_group_set
-- Change the settings of a group.
update dispatch_groups
set channel = :channel, command = :command, trigger_kind = :trigger_kind, trigger_word = :trigger_word,
  workdir = :workdir, idle_seconds = :idle_seconds, hard_seconds = :hard_seconds,
  is_paused = :is_paused, is_nudged = true,
  updated_at = {{ now }}
where name = :name
returning name

-- name: dispatch_group_show
-- Read a group, and the remaining delay and the time of its next attempt.
select {{ group_columns }}
from dispatch_groups where name = :name

-- name: dispatch_message_add
-- Add a message; ignored if its id exists.
insert into dispatch_messages (channel, group_name, id, seq, changed_seq, sender, body, sent_at, received_at)
values (:channel, :group, :id, :seq, :seq, :sender, :body, :sent_at, {{ now }})
on conflict (channel, group_name, id) do nothing
returning seq

-- name: dispatch_message_between
-- Return the messages of a group after one position and up to another, in the order of arrival.
select {{ message_columns }}
from dispatch_messages as m
where m.group_name = :group and m.seq > :after and m.seq <= :upto
order by m.seq limit :limit

-- name: dispatch_message_changed
-- Return the messages of a group that were added or edited after a position.
select {{ message_columns }}
from dispatch_messages as m
where m.group_name = :group and m.changed_seq > :after and m.changed_seq <= :upto
order by m.changed_seq limit :limit

-- name: dispatch_message_edit
-- Change the text of a message.
update dispatch_messages
set sender = :sender, body = :body, sent_at = :sent_at, changed_seq = :changed_seq, edited_at = {{ now }}
where channel = :channel and group_name = :group and id = :id

-- name: dispatch_message_find
-- Read a message by its id, to detect a redelivery.
select seq, sender, body, sent_at from dispatch_messages
where channel = :channel and group_name = :group and id = :id

-- name: dispatch_message_last
-- Read the position of a group's last message at or before another.
select seq from dispatch_messages where group_name = :group and seq <= :upto order by seq desc limit 1

-- name: dispatch_message_new
-- Return the groups with messages after a position, in the order of arrival.
select seq, group_name from dispatch_messages where seq > :after order by seq limit :limit

-- name: dispatch_message_numbers
-- Return the arrival numbers of a group's messages, from one to another.
select seq from dispatch_messages where group_name = :group and seq >= :first and seq <= :last order by seq

-- name: dispatch_message_renumber
-- Give a message a new arrival number: an operator requeued it.
update dispatch_messages set seq = :seq, redriven_count = redriven_count + 1
where group_name = :group and seq = :old

-- name: dispatch_message_since
-- Find the first message of a group that was received at or after a time.
select seq from dispatch_messages
where group_name = :group and received_at >= {{ time(:since) }}
order by seq limit 1

-- name: dispatch_outbox_add
-- Store an agent's reply before it is sent; the key makes it idempotent.
insert into dispatch_outbox (key, group_name, batch_number, position, body, state, seq, created_at, sent_at)
values (:key, :group, :number, :position, :body, :state, :seq, {{ now }},
  case when cast(:seq as bigint) is null then null else {{ now }} end)
on conflict (key) do nothing
returning id

-- name: dispatch_outbox_cancel
-- Cancel unsent replies after a position: their messages are delivered again.
update dispatch_outbox set state = 'cancelled'
where group_name = :group and batch_number = :number and state = 'pending' and position > :after
returning id

-- name: dispatch_outbox_forget
-- Delete a cancelled reply, so that it can be added again at its new position.
delete from dispatch_outbox where key = :key and group_name = :group and state = 'cancelled'

-- name: dispatch_outbox_later
-- Schedule another attempt for a reply that was not sent; its state says whether people may have seen it.
update dispatch_outbox set state = :state, error = :error, retry_at = {{ after(:seconds) }}
where id = :id and state = 'sending' and attempt_count = :attempts

-- name: dispatch_outbox_list
-- List the replies in a group, newest first; long texts are cut by bytes.
select id, key, batch_number, position, substr(body, 1, :shown), length(body), state, attempt_count, seq, error,
  {{ text(created_at) }}, {{ text(sent_at) }}, {{ text(retry_at) }}
from dispatch_outbox where group_name = :group order by batch_number desc, id desc limit :limit

-- name: dispatch_outbox_mark_ambiguous
-- Record that sending a reply is ambiguous, or that the channel rejected it.
update dispatch_outbox set state = :state, error = :error, seq = :seq
where id = :id and state = 'sending' and attempt_count = :attempts
returning id

-- name: dispatch_outbox_of
-- List the replies to one delivery.
select id, key, group_name, batch_number, position, body, state, attempt_count, 0
from dispatch_outbox where group_name = :group and batch_number = :number order by id

-- name: dispatch_outbox_open
-- List replies to send, oldest first: the first of each group, which blocks the others.
-- Steps from group to group by the index, so that a long queue in one costs nothing.
with recursive heads (group_name) as (
  select min(group_name) from dispatch_outbox where state in ('pending', 'sending')
  union all
  select (
    select min(n.group_name) from dispatch_outbox as n
    where n.state in ('pending', 'sending') and n.group_name > heads.group_name)
  from heads where heads.group_name is not null
)
select o.id, o.key, o.group_name, o.batch_number, o.position, o.body, o.state, o.attempt_count, {{ wait(o.retry_at) }}
from heads
join dispatch_outbox as o on o.id = (
  select min(p.id) from dispatch_outbox as p
  where p.state in ('pending', 'sending') and p.group_name = heads.group_name)
where heads.group_name is not null
order by o.id

-- name: dispatch_outbox_page
-- Return the replies in a group after a position that people may have seen.
select o.seq, o.key, o.group_name, o.body, o.state, {{ text(coalesce(o.sent_at, o.created_at)) }}
from dispatch_outbox as o
where o.group_name = :group and o.seq > :after and o.seq <= :upto
order by o.seq limit :limit

-- name: dispatch_outbox_seen
-- Return the last position of a delivery whose reply people may have seen.
select max(position) from dispatch_outbox
where group_name = :group and batch_number = :number and state in ('sending', 'sent', 'maybe sent')

-- name: dispatch_outbox_sending
-- Mark a reply as being sent: from now on people may have seen it.
update dispatch_outbox set state = 'sending', attempt_count = attempt_count + 1, retry_at = null
where id = :id and state in ('pending', 'sending') and attempt_count = :attempts
returning attempt_count

-- name: dispatch_outbox_sent
-- Mark a reply as sent and give it its position in the conversation.
update dispatch_outbox set state = 'sent', seq = :seq, error = null, sent_at = {{ now }}
where id = :id and state = 'sending'
returning id

-- name: dispatch_outbox_unsent
-- Count the unsent replies in a group.
select count(*) from dispatch_outbox where group_name = :group and state in ('pending', 'sending')
