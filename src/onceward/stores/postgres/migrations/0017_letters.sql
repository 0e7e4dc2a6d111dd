-- Dead letters of all cursors, the newest first.
create index onceward_dead_newest on onceward_dead (state, id);
