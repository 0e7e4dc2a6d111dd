-- Copy the words of the documents that are there, before the index of words is emptied.
create temp table memory_words_kept as
select doc, group_concat(term, ' ') as words
from (
  select p.doc, p.term from memory_words_places as p
  where p.doc in (select id from memory_docs) order by p.doc, p.offset
)
group by doc
