-- List the applied migrations, oldest first.
select number from onceward_migrations order by number
