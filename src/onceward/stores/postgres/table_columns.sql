-- Return the columns of a user's table, in order: name, type, kind of type, category, not null, default.
select a.attname::text, format_type(a.atttypid, a.atttypmod), base.typname::text,
  base.typcategory::text, a.attnotnull, pg_get_expr(d.adbin, d.adrelid)
from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
join pg_type t on t.oid = a.atttypid
join pg_type base on base.oid = case when t.typtype = 'd' then t.typbasetype else t.oid end
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where c.oid = to_regclass(:table) and c.relkind in ('r', 'p')
order by a.attnum
