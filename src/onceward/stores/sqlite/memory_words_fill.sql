-- Fill the index of words with those that were kept.
insert into memory_words (rowid, words) select doc, words from memory_words_kept
