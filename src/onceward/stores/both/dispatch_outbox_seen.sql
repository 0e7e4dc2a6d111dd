-- Say how far what people may have seen of a delivery reaches.
select max(position) from dispatch_outbox
where group_name = :group and batch_number = :number and state in ('sending', 'sent', 'maybe sent')
