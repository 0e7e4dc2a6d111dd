-- Count the messages of a group behind one place and up to another, no further than a limit.
select count(*) from (
  select 1 from dispatch_messages where group_name = :group and seq > :after and seq <= :upto limit :limit) as found
