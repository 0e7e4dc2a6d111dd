-- Note that a migration was applied.
insert into onceward_migrations (number, name, applied_at) values (:number, :name, :wall)
