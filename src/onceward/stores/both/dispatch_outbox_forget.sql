-- Forget a saying that was taken back, so that it can be said again, in its new place.
delete from dispatch_outbox where key = :key and group_name = :group and state = 'cancelled'
