-- Return how many messages were set aside and are tried again.
select cast(coalesce(sum(number), 0) as bigint) from onceward_counts where kind = 'parked'
