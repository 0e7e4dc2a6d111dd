-- Say whether the key is ours until this transaction ends; a twin at work is not waited for.
select pg_try_advisory_xact_lock(hashtextextended(:scope || chr(31) || :key, 0))
