-- Close the dead letters of a group whose messages are handed out again anyway, or the part of them that is.
update dispatch_deliveries
set state = case when first_seq >= :since then 'redriven' else state end,
  last_seq = case when first_seq >= :since then last_seq else :since - 1 end,
  ended_at = :wall
where group_name = :group and state = 'dead' and last_seq >= :since
