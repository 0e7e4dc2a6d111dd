-- Return the columns of the indexes of a user's table that order all its rows: index, unique, column.
select i.name, i."unique", x.name
from pragma_index_list(:table) as i, pragma_index_xinfo(i.name) as x
where not i.partial and x.key
  and not exists (select 1 from pragma_index_xinfo(i.name) as y where y.key and y."desc")
order by i.name, x.seqno
