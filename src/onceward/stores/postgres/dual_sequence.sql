-- Draw the next arrival number; the counter stays locked until commit, so numbers are in commit order.
insert into onceward_dual_counters as c (dual_name, last_sequence) values (:dual, 1)
on conflict (dual_name) do update set last_sequence = c.last_sequence + 1
returning c.last_sequence
