-- Forget the copy of the words.
drop table memory_words_kept
