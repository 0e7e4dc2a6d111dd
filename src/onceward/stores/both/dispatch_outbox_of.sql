-- List what was said in answer to one delivery.
select id, key, group_name, batch_number, position, body, state, attempt_count, 0
from dispatch_outbox where group_name = :group and batch_number = :number order by id
