-- The index of words without deletions, which SQLite knows only since 3.43: searches join the documents, and words of
-- documents that are gone stay until they are too many; then the index is rebuilt.
create virtual table memory_words_places using fts5vocab (memory_words, instance);
create temp table memory_words_kept as
select doc, group_concat(term, ' ') as words
from (select doc, term from memory_words_places order by doc, offset) group by doc;

drop trigger memory_doc_words_add;
drop trigger if exists memory_docs_remove;
drop table memory_words_places;
drop table memory_words;
create virtual table memory_words using fts5 (words, content = '', tokenize = 'ascii');
-- Each word of each document, for the rebuild.
create virtual table memory_words_places using fts5vocab (memory_words, instance);
insert into memory_words (rowid, words)
select doc, words from memory_words_kept where doc in (select id from memory_docs);
drop table memory_words_kept;

-- How many documents the index holds, and how many of them are gone.
create table memory_words_count (
  id integer primary key check (id = 1),
  live integer not null,
  gone integer not null
) strict;
insert into memory_words_count select 1, count(*), 0 from memory_docs;
create trigger memory_doc_words_add instead of insert on memory_doc_words begin
  insert into memory_docs (entity_id, observation_id) values (new.entity_id, new.observation_id);
  insert into memory_words (rowid, words) values (last_insert_rowid(), new.words);
  update memory_words_count set live = live + 1;
end;
create trigger memory_docs_remove after delete on memory_docs begin
  update memory_words_count set live = live - 1, gone = gone + 1;
end;
