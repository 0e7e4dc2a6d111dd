-- Count what an agent said in a group and is not sent yet.
select count(*) from dispatch_outbox where group_name = :group and state in ('pending', 'sending')
