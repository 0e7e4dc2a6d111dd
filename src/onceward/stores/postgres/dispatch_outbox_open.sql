-- List what is to be sent, oldest first: the first of each group, for the others wait behind it.
-- From group to group by the index, however much waits in one.
with recursive heads (group_name) as (
  select min(group_name) from dispatch_outbox where state in ('pending', 'sending')
  union all
  select (
    select min(n.group_name) from dispatch_outbox as n
    where n.state in ('pending', 'sending') and n.group_name > heads.group_name)
  from heads where heads.group_name is not null
)
select o.id, o.key, o.group_name, o.batch_number, o.position, o.body, o.state, o.attempt_count, case when o.retry_at is null then 0 else greatest(0, extract(epoch from o.retry_at - onceward_now()))::double precision end
from heads
join dispatch_outbox as o on o.id = (
  select min(p.id) from dispatch_outbox as p
  where p.state in ('pending', 'sending') and p.group_name = heads.group_name)
where heads.group_name is not null
order by o.id
