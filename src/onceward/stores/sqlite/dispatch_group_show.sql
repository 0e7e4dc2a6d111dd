-- Read a group, how long it must still wait for its next try, and when that is.
select name, channel, command, trigger_kind, trigger_word, workdir, idle_seconds, hard_seconds, is_paused, called_seq, attempt_count, last_error, case when retry_at is null then 0 else max(0, (julianday(retry_at) - julianday(:wall)) * 86400.0) end, retry_at
from dispatch_groups where name = :name
