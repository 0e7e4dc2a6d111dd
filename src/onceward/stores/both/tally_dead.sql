-- Count the messages that were given up and wait for a person.
select count(*) from onceward_dead where state = 'dead'
