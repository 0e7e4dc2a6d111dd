-- Return the columns of the indexes of a user's table that order all its rows: index, unique, column.
select i.relname::text, x.indisunique, a.attname::text
from pg_index x
join pg_class i on i.oid = x.indexrelid
join pg_am m on m.oid = i.relam and m.amname = 'btree'
cross join lateral unnest(x.indkey::smallint[]) with ordinality as k (number, place)
left join pg_attribute a on a.attrelid = x.indrelid and a.attnum = k.number
where x.indrelid = to_regclass(:table) and x.indisvalid and x.indpred is null
  and 0 = all (x.indoption::smallint[]) and k.place <= x.indnkeyatts
order by i.relname, k.place
