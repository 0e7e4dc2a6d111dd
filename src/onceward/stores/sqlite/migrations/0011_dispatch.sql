-- Chat messages to agents: what arrived, for which groups, what was handed to agents, and what they said.
-- Texts are bytes, so that every character of a person's message is kept, U+0000 too.
create table dispatch_groups (
  name text primary key,
  channel text not null,
  command text not null,
  trigger_kind text not null check (trigger_kind in ('always', 'prefix', 'mention')),
  trigger_word text not null,
  workdir text,
  idle_seconds real not null,
  hard_seconds real not null,
  is_paused integer not null default 0,
  is_nudged integer not null default 0,
  called_seq integer not null default 0,
  attempt_count integer not null default 0,
  retry_at text,
  last_error text,
  agent text,
  created_at text not null,
  updated_at text not null
) strict;
create index dispatch_groups_nudged on dispatch_groups (name) where is_nudged = 1;
create index dispatch_groups_agents on dispatch_groups (name) where agent is not null;

create table dispatch_messages (
  channel text not null,
  group_name text not null,
  id text not null,
  seq integer not null unique,
  changed_seq integer not null,
  sender blob not null,
  body blob not null,
  sent_at text,
  received_at text not null,
  edited_at text,
  redriven_count integer not null default 0,
  primary key (channel, group_name, id)
) strict;
create index dispatch_messages_group on dispatch_messages (group_name, seq);
create index dispatch_messages_changed on dispatch_messages (group_name, changed_seq);

-- Each time messages were handed to an agent: which, how often before, and what became of it.
create table dispatch_deliveries (
  id integer primary key autoincrement,
  group_name text not null,
  batch_number integer not null,
  state text not null check (state in ('running', 'done', 'kept', 'rolled back', 'dead', 'redriven', 'dropped')),
  attempt integer not null,
  first_seq integer not null,
  last_seq integer not null,
  agent text,
  error text,
  started_at text not null,
  ended_at text,
  unique (group_name, batch_number)
) strict;
create index dispatch_deliveries_running on dispatch_deliveries (group_name) where state = 'running';
create index dispatch_deliveries_dead on dispatch_deliveries (id) where state = 'dead';

-- What agents said. A row is there before anything is sent; its state says whether people may have seen it.
create table dispatch_outbox (
  id integer primary key autoincrement,
  key text not null unique,
  group_name text not null,
  batch_number integer not null,
  position integer not null,
  body blob not null,
  state text not null check (state in ('pending', 'sending', 'sent', 'maybe sent', 'failed', 'cancelled')),
  seq integer unique,
  attempt_count integer not null default 0,
  retry_at text,
  error text,
  created_at text not null,
  sent_at text
) strict;
create index dispatch_outbox_group on dispatch_outbox (group_name, seq);
create index dispatch_outbox_batch on dispatch_outbox (group_name, batch_number);
create index dispatch_outbox_open on dispatch_outbox (group_name, id) where state in ('pending', 'sending');

-- What the first system of this kind kept in its state: the time that was read, and the time each group was processed.
create view router_state as
  select 'last_timestamp' as key, null as group_name, (
    select coalesce(m.sent_at, m.received_at) from dispatch_messages as m
    where m.seq <= r.read_position order by m.seq desc limit 1) as value
  from onceward_dual_reads as r where r.dual_name = 'dispatch'
  union all
  select 'last_agent_timestamp', g.group_name, (
    select coalesce(m.sent_at, m.received_at) from dispatch_messages as m
    where m.group_name = g.group_name and m.seq <= g.processed_position order by m.seq desc limit 1)
  from onceward_dual_groups as g where g.dual_name = 'dispatch';
