-- Read what agents said in a group, behind a place, as people may have seen it.
select o.seq, o.key, o.group_name, o.body, o.state, onceward_time_text(coalesce(o.sent_at, o.created_at))
from dispatch_outbox as o
where o.group_name = :group and o.seq > :after and o.seq <= :upto
order by o.seq limit :limit
