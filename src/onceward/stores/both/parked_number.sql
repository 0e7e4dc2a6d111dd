-- Return how much is parked for a cursor; no row when nothing is.
select number from onceward_counts where kind = 'parked' and name = :cursor
