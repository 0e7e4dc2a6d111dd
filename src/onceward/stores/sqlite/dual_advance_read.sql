-- Move the read cursor onward; one that is further already stays.
insert into onceward_dual_reads as r (dual_name, read_position, updated_at) values (:dual, :position, :wall)
on conflict (dual_name) do update set read_position = excluded.read_position, updated_at = excluded.updated_at
where r.read_position < excluded.read_position
