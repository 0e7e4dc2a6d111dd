-- Take the words of entities and all of their observations out of the index.
delete from memory_docs where entity_id in (select value from json_each(:ids))
