-- Make the table of applied migrations, once.
create table if not exists onceward_migrations (
  number integer primary key,
  name text not null,
  applied_at text not null
) strict
