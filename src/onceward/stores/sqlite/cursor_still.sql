-- Let nobody else do anything to a cursor until this transaction ends: whoever has the write lock has that.
select cursor_name from cursor_positions where cursor_name = :name
