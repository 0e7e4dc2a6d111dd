-- Note that a cursor is over the threshold of a rule; it fires later, if it still is.
insert into onceward_alerts (id, rule, kind, cursor_name, state, value, threshold, pending_at)
values (:id, :rule, :kind, :cursor, 'pending', :value, :threshold, onceward_now())
