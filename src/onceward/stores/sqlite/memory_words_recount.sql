-- Note that the index of words holds no document that is gone.
update memory_words_count set gone = 0
