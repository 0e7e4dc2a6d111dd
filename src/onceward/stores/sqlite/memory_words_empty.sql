-- Empty the index of words.
insert into memory_words (memory_words) values ('delete-all')
