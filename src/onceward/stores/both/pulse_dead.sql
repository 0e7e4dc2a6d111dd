-- Return what is another when a message died, was put back or was dropped.
select (select max(id) from onceward_dead),
  (select cast(coalesce(sum(number), 0) as bigint) from onceward_counts where kind = 'dead')
