-- Erase the steps of a piece of work.
delete from onceward_effects where scope = :scope and key = :key
