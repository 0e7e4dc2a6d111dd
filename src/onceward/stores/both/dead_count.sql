-- Return how many letters are dead now, cursor by cursor.
select name, number from onceward_counts where kind = 'dead' order by name
