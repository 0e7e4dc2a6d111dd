-- Keep what an agent said, before anybody sees it; the same key is the same saying.
insert into dispatch_outbox (key, group_name, batch_number, position, body, state, seq, created_at, sent_at)
values (:key, :group, :number, :position, :body, :state, :seq, onceward_now(), case when :seq ::bigint is null then null else onceward_now() end)
on conflict (key) do nothing
returning id
