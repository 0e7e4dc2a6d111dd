-- Change what a group is set to.
update dispatch_groups
set channel = :channel, command = :command, trigger_kind = :trigger_kind, trigger_word = :trigger_word,
  workdir = :workdir, idle_seconds = :idle_seconds, hard_seconds = :hard_seconds, is_paused = :is_paused, is_nudged = true,
  updated_at = onceward_now()
where name = :name
returning name
