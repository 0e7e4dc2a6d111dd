-- Return what is another when a message arrived, was handed out, or an agent spoke or ended.
select (select last_sequence from onceward_dual_counters where dual_name = 'dispatch'),
  (select read_position from onceward_dual_reads where dual_name = 'dispatch'),
  (select sum(processed_position) from onceward_dual_groups where dual_name = 'dispatch'),
  (select count(*) from onceward_dual_batches where dual_name = 'dispatch'),
  (select max(id) from dispatch_deliveries), (select max(id) from dispatch_outbox),
  (select count(*) from dispatch_outbox where state in ('pending', 'sending')),
  (select max(updated_at)::text from dispatch_groups), (select count(*) from dispatch_groups)
