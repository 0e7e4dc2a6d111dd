-- Let a message arrive anew: it was given up, and somebody wants it tried again.
update dispatch_messages set seq = :seq, redriven_count = redriven_count + 1
where group_name = :group and seq = :old
