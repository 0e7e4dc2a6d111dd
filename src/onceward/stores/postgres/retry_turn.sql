-- Give the next number of a cursor's retries; nobody else changes them before this transaction ends.
select onceward_retry_turn(:cursor::text, :is_worker::boolean)
