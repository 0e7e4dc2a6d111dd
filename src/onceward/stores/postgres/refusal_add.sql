-- Note that a late holder was turned away, and who has its cursor now; each thing it tries is noted once.
insert into onceward_refusals
  (cursor_name, happened_at, worker, epoch, current_epoch, current_owner, what)
values (:name::text, onceward_now(), :worker, :epoch,
  (select lease_epoch from cursor_positions where cursor_name = :name),
  (select lease_owner from cursor_positions where cursor_name = :name), :what)
on conflict (cursor_name, epoch, what) do nothing
