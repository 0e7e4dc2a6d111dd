-- Return how texts in a column of a user's table are compared in its indexes: collation, and whether only the same text is equal.
select distinct upper(x.coll), upper(x.coll) = 'BINARY'
from pragma_index_list(:table) as i, pragma_index_xinfo(i.name) as x
where x.key and x.name = :column
