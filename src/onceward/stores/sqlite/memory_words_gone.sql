-- Tell how many documents the index of words holds, and of how many more only the words are left.
select live, gone from memory_words_count where id = 1
