-- Return how much is parked now, cursor by cursor.
select name, number from onceward_counts where kind = 'parked' order by name
