-- Say what time it is for this store, for people.
select :wall
