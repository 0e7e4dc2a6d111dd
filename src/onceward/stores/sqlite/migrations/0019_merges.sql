-- Entities whose names were other spellings of one canonical name: which was merged into which, what that added, and
-- by which change the old one was deleted, so that it can be undone.
create table memory_merges (
  id integer primary key autoincrement,
  -- The first row of the same merge; null in that row itself.
  merge integer references memory_merges (id),
  source_id integer not null references memory_entities (id),
  target_id integer not null references memory_entities (id),
  change_id integer not null references memory_changes (id),
  -- JSON: whether the target is new, fingerprints of observations, and relations by the names of their ends.
  added text not null,
  created_at text not null,
  undone_at text
) strict;
create index memory_merges_merge on memory_merges (merge) where merge is not null;
create index memory_merges_target on memory_merges (target_id);
