-- Take back what an agent said and nobody can have seen, behind a place: its messages are handed out again.
update dispatch_outbox set state = 'cancelled'
where group_name = :group and batch_number = :number and state = 'pending' and position > :after
returning id
