-- Read a group, how long it must still wait for its next try, and when that is.
select name, channel, command, trigger_kind, trigger_word, workdir, idle_seconds, hard_seconds, is_paused, called_seq, attempt_count, last_error, case when retry_at is null then 0 else greatest(0, extract(epoch from retry_at - onceward_now()))::double precision end, onceward_time_text(retry_at)
from dispatch_groups where name = :name
