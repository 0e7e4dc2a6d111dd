-- Chat messages to agents: what arrived, for which groups, what was handed to agents, and what they said.
-- Texts are bytes, so that every character of a person's message is kept, U+0000 too.
create table dispatch_groups (
  name text primary key,
  channel text not null,
  command text not null,
  trigger_kind text not null check (trigger_kind in ('always', 'prefix', 'mention')),
  trigger_word text not null,
  workdir text,
  idle_seconds double precision not null,
  hard_seconds double precision not null,
  is_paused boolean not null default false,
  is_nudged boolean not null default false,
  called_seq bigint not null default 0,
  attempt_count integer not null default 0,
  retry_at timestamptz,
  last_error text,
  agent text,
  created_at timestamptz not null,
  updated_at timestamptz not null
);
create index dispatch_groups_nudged on dispatch_groups (name) where is_nudged;
create index dispatch_groups_agents on dispatch_groups (name) where agent is not null;

create table dispatch_messages (
  channel text not null,
  group_name text not null,
  id text not null,
  seq bigint not null unique,
  changed_seq bigint not null,
  sender bytea not null,
  body bytea not null,
  sent_at text,
  received_at timestamptz not null,
  edited_at timestamptz,
  redriven_count integer not null default 0,
  primary key (channel, group_name, id)
);
create index dispatch_messages_group on dispatch_messages (group_name, seq);
create index dispatch_messages_changed on dispatch_messages (group_name, changed_seq);

-- Each time messages were handed to an agent: which, how often before, and what became of it.
create table dispatch_deliveries (
  id bigint generated always as identity primary key,
  group_name text not null,
  batch_number bigint not null,
  state text not null check (state in ('running', 'done', 'kept', 'rolled back', 'dead', 'redriven', 'dropped')),
  attempt integer not null,
  first_seq bigint not null,
  last_seq bigint not null,
  agent text,
  error text,
  started_at timestamptz not null,
  ended_at timestamptz,
  unique (group_name, batch_number)
);
create index dispatch_deliveries_running on dispatch_deliveries (group_name) where state = 'running';
create index dispatch_deliveries_dead on dispatch_deliveries (id) where state = 'dead';

-- What agents said. A row is there before anything is sent; its state says whether people may have seen it.
create table dispatch_outbox (
  id bigint generated always as identity primary key,
  key text not null unique,
  group_name text not null,
  batch_number bigint not null,
  position bigint not null,
  body bytea not null,
  state text not null check (state in ('pending', 'sending', 'sent', 'maybe sent', 'failed', 'cancelled')),
  seq bigint unique,
  attempt_count integer not null default 0,
  retry_at timestamptz,
  error text,
  created_at timestamptz not null,
  sent_at timestamptz
);
create index dispatch_outbox_group on dispatch_outbox (group_name, seq);
create index dispatch_outbox_batch on dispatch_outbox (group_name, batch_number);
create index dispatch_outbox_open on dispatch_outbox (group_name, id) where state in ('pending', 'sending');

-- What the first system of this kind kept in its state: the time that was read, and the time each group was processed.
create view router_state as
  select 'last_timestamp' as key, null as group_name, (
    select coalesce(m.sent_at, onceward_time_text(m.received_at)) from dispatch_messages as m
    where m.seq <= r.read_position order by m.seq desc limit 1) as value
  from onceward_dual_reads as r where r.dual_name = 'dispatch'
  union all
  select 'last_agent_timestamp', g.group_name, (
    select coalesce(m.sent_at, onceward_time_text(m.received_at)) from dispatch_messages as m
    where m.group_name = g.group_name and m.seq <= g.processed_position order by m.seq desc limit 1)
  from onceward_dual_groups as g where g.dual_name = 'dispatch';
