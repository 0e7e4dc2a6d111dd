-- Count the messages that were set aside and are tried again.
select count(*) from onceward_parked
