-- Give the next number of a cursor's retries; nobody else changes them before this transaction ends.
insert into onceward_retry_turns as t (cursor_name, last_sequence) values (:cursor, 1)
on conflict (cursor_name) do update set last_sequence = t.last_sequence + 1
returning t.last_sequence
