-- The agents' memory: entities, what was observed of them, how they relate, what was deleted, and the words of it all.
-- A row whose `deleted_by` names a change is not there for readers; nothing is ever removed.
create table memory_entities (
  id integer primary key autoincrement,
  name text not null unique,
  entity_type text not null,
  source text not null,
  run text,
  created_at text not null,
  deleted_by integer
) strict;

create table memory_observations (
  id integer primary key autoincrement,
  entity_id integer not null references memory_entities (id),
  fingerprint text not null,
  content text not null,
  kind text,
  ts text,
  mode text,
  repo text,
  branch text,
  source text not null,
  run text,
  created_at text not null,
  deleted_by integer,
  unique (entity_id, fingerprint)
) strict;
create index memory_observations_deleted on memory_observations (deleted_by) where deleted_by is not null;

create table memory_relations (
  id integer primary key autoincrement,
  from_id integer not null references memory_entities (id),
  to_id integer not null references memory_entities (id),
  relation_type text not null,
  source text not null,
  run text,
  created_at text not null,
  deleted_by integer,
  unique (from_id, to_id, relation_type)
) strict;
create index memory_relations_to on memory_relations (to_id);
create index memory_relations_deleted on memory_relations (deleted_by) where deleted_by is not null;

create table memory_changes (
  id integer primary key autoincrement,
  action text not null check (action in ('deleted', 'restored')),
  entity_id integer not null references memory_entities (id),
  observation_id integer references memory_observations (id),
  relation_id integer references memory_relations (id),
  source text not null,
  run text,
  created_at text not null
) strict;
create index memory_changes_entity on memory_changes (entity_id);
create index memory_changes_relation on memory_changes (relation_id) where relation_id is not null;

-- One document for the name and type of each entity, and one for each observation, of what is not deleted.
create table memory_docs (
  id integer primary key autoincrement,
  entity_id integer not null references memory_entities (id),
  observation_id integer references memory_observations (id)
) strict;
create index memory_docs_entity on memory_docs (entity_id, observation_id);

-- Words are made by us, the same for every engine; so the tokenizer only splits at spaces.
create virtual table memory_words using fts5 (
  words, content = '', tokenize = 'ascii'
);
create view memory_doc_words as select id, entity_id, observation_id, '' as words from memory_docs;
create trigger memory_doc_words_add instead of insert on memory_doc_words begin
  insert into memory_docs (entity_id, observation_id) values (new.entity_id, new.observation_id);
  insert into memory_words (rowid, words) values (last_insert_rowid(), new.words);
end;
