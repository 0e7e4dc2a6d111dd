-- Park messages again as they were; which of a key is its head is decided afterwards.
insert into onceward_parked (cursor_name, position, sequence, key, alone, is_head, raw, attempt,
  due_seconds, due_boot, due_at, failures, first_failed_at, parked_at)
select cursor_name, position, sequence, key, alone, alone, raw, attempt,
  due_seconds, due_boot, due_at, failures, first_failed_at, parked_at
from onceward_forgotten where raw is not null and id in (select value from json_each(:ids))
