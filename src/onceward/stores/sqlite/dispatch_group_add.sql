-- Add a group; nothing happens when there is one of this name.
insert into dispatch_groups (
  name, channel, command, trigger_kind, trigger_word, workdir, idle_seconds, hard_seconds, created_at, updated_at)
values (:name, :channel, :command, :trigger_kind, :trigger_word, :workdir, :idle_seconds, :hard_seconds, :wall, :wall)
on conflict (name) do nothing
returning name
