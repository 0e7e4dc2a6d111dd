-- Return the columns of a user's table, in order: name, type, twice; not null, and how the key is declared.
select name, type, type, '', "notnull",
  case when pk = 1 then
    (select sql from sqlite_master where type = 'table' and name = :table collate nocase)
  end
from pragma_table_xinfo(:table)
where hidden <> 1
order by cid
