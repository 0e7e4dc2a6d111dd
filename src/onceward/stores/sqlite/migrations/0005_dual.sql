-- Dual cursors: the arrival counter, how far was read, how far each group is processed, what is in flight.
create table onceward_dual_counters (
  dual_name text primary key,
  last_sequence integer not null
) strict;

create table onceward_dual_reads (
  dual_name text primary key,
  read_position integer not null,
  updated_at text not null
) strict;

create table onceward_dual_groups (
  dual_name text not null,
  group_name text not null,
  processed_position integer not null default 0,
  last_arrived integer,
  last_batch integer not null default 0,
  updated_at text not null,
  primary key (dual_name, group_name)
) strict;

create table onceward_dual_batches (
  dual_name text not null,
  group_name text not null,
  number integer not null,
  previous_position integer not null,
  position integer not null check (position > previous_position),
  output_position integer check (output_position between previous_position and position),
  items text not null,
  started_at text not null,
  primary key (dual_name, group_name)
) strict;
