-- Close the dead letters of a group whose messages are handed out again anyway.
update dispatch_deliveries set state = 'redriven', ended_at = onceward_now()
where group_name = :group and state = 'dead' and last_seq >= :since
