-- Say what time it is for this store, for people.
select onceward_time_text(onceward_now())
