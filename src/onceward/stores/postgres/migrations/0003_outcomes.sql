-- What is known of every key, and of the steps inside its work.
-- until_at: the end of the lease while running, else the end of the outcome's life.
create table onceward_outcomes (
  scope text not null,
  key text not null,
  fingerprint text,
  state text not null
    check (state in ('running', 'done', 'failed', 'ambiguous', 'free', 'expired')),
  fence bigint not null,
  owner text not null,
  on_crash text not null check (on_crash in ('ambiguous', 'rerun')),
  claimed_at timestamptz not null,
  updated_at timestamptz not null,
  until_at timestamptz,
  result text,
  failure text,
  note text,
  primary key (scope, key)
);
create index onceward_outcomes_until on onceward_outcomes (until_at)
  where until_at is not null and state <> 'running' and state <> 'ambiguous';
create table onceward_effects (
  scope text not null,
  key text not null,
  name text not null,
  state text not null check (state in ('intended', 'done', 'failed', 'ambiguous', 'free')),
  fence bigint not null,
  updated_at timestamptz not null,
  result text,
  failure text,
  note text,
  primary key (scope, key, name),
  foreign key (scope, key) references onceward_outcomes (scope, key) on delete cascade
);
-- A moment as text that reads back as the same moment.
create function onceward_text(moment timestamptz) returns text
  language sql immutable
  as $$ select to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') $$;
-- The outcomes as of now: silence after the lease, and lives that are over, are told apart here.
create view onceward_outcomes_now as
  select
    outcome.*,
    case
      when state = 'running' and onceward_now() < until_at then 'running'
      when state = 'running' and on_crash = 'rerun' then 'abandoned'
      when state = 'running' then 'ambiguous'
      when state = 'ambiguous' or until_at is null then state
      when onceward_now() >= until_at + interval '30 days' then 'gone'
      when state = 'free' or onceward_now() < until_at then state
      else 'expired'
    end as standing
  from onceward_outcomes as outcome;
