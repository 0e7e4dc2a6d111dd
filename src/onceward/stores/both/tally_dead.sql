-- Return how many messages were given up and wait for a person.
select cast(coalesce(sum(number), 0) as bigint) from onceward_counts where kind = 'dead'
