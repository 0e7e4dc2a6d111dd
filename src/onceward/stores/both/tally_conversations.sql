-- Count the deliveries to agents that were given up and wait for a person.
select count(*) from dispatch_deliveries where state = 'dead'
