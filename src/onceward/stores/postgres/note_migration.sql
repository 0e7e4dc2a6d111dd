-- Note that a migration was applied.
insert into onceward_migrations (number, name) values (:number, :name)
