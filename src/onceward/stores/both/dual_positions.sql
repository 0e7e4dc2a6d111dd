-- Read how far messages arrived and how far they were read.
select coalesce((select last_sequence from onceward_dual_counters where dual_name = :dual), 0),
  coalesce((select read_position from onceward_dual_reads where dual_name = :dual), 0)
