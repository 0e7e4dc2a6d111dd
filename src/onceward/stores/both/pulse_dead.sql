-- Return what is another when a message died, was put back or was dropped.
select (select max(id) from onceward_dead), (select count(*) from onceward_dead where state = 'dead')
