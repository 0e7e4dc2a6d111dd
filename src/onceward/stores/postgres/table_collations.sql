-- Return how texts in a column of a user's table are compared: collation, and whether only the same text is equal.
select l.collname::text, l.collisdeterministic
from pg_attribute a
join pg_collation l on l.oid = a.attcollation
where a.attrelid = to_regclass(:table) and a.attname = :column
