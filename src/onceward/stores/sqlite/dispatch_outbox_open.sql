-- List what is to be sent, oldest first: the first of each group, for the others wait behind it.
select o.id, o.key, o.group_name, o.batch_number, o.position, o.body, o.state, o.attempt_count, case when o.retry_at is null then 0 else max(0, (julianday(o.retry_at) - julianday(:wall)) * 86400.0) end
from dispatch_outbox as o
where o.state in ('pending', 'sending')
  and not exists (
    select 1 from dispatch_outbox as p
    where p.state in ('pending', 'sending') and p.group_name = o.group_name and p.id < o.id)
order by o.id
