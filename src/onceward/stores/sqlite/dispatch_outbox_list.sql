-- List what an agent said in a group, the newest first; long texts are cut, by bytes.
select id, key, batch_number, position, substr(body, 1, :shown), length(body), state, attempt_count, seq, error, created_at, sent_at, retry_at
from dispatch_outbox where group_name = :group order by batch_number desc, id desc limit :limit
