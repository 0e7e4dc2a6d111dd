-- Let nobody else do anything to a cursor until this transaction ends; a handler that runs goes on.
select cursor_name from cursor_positions where cursor_name = :name for no key update
