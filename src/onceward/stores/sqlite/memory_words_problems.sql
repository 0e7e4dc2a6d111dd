-- Count what must never be in the index of words: each way in which it and the documents differ.
select 'documents without words', (
    select count(*) from memory_docs as d
    where not exists (select 1 from memory_words as w where w.rowid = d.id))
union all
select 'words without a document', (
    select count(*) from memory_words as w
    where not exists (select 1 from memory_docs as d where d.id = w.rowid))
