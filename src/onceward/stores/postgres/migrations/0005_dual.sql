-- Dual cursors: the arrival counter, how far was read, how far each group is processed, what is in flight.
create table onceward_dual_counters (
  dual_name text primary key,
  last_sequence bigint not null
);

create table onceward_dual_reads (
  dual_name text primary key,
  read_position bigint not null,
  updated_at timestamptz not null
);

create table onceward_dual_groups (
  dual_name text not null,
  group_name text not null,
  processed_position bigint not null default 0,
  last_arrived bigint,
  last_batch bigint not null default 0,
  updated_at timestamptz not null,
  primary key (dual_name, group_name)
);

create table onceward_dual_batches (
  dual_name text not null,
  group_name text not null,
  number bigint not null,
  previous_position bigint not null,
  position bigint not null check (position > previous_position),
  output_position bigint check (output_position between previous_position and position),
  items text not null,
  started_at timestamptz not null,
  primary key (dual_name, group_name)
);
