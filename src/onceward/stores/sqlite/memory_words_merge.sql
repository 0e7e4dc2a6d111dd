-- Merge so many pages of the word index; with a negative number, of all its layers and not only of equal ones.
insert into memory_words (memory_words, rank) values ('merge', :pages)
