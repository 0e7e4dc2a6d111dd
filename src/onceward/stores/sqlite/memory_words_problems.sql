-- Count what must never be in the index of words: documents without words, and a wrong count of either kind.
select 'documents without words', (
    select count(*) from memory_docs as d
    where not exists (select 1 from memory_words as w where w.rowid = d.id))
union all
select 'a wrong count of words', (
    select count(*) from memory_words_count as c
    where c.live <> (select count(*) from memory_docs)
      or c.live + c.gone <> (select count(*) from memory_words))
