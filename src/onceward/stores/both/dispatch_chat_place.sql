-- Find the place behind which the last so many things in a group were said, up to a place.
select p.place from (
  select m.place from (
    select changed_seq as place from dispatch_messages
    where group_name = :group and changed_seq <= :upto order by changed_seq desc limit :limit) as m
  union all
  select o.place from (
    select seq as place from dispatch_outbox
    where group_name = :group and seq <= :upto order by seq desc limit :limit) as o
) as p
order by p.place desc limit 1 offset :offset
