-- Note what was told of an alert.
update onceward_alerts set
  fired_sent_at = case when :event = 'fired' then coalesce(fired_sent_at, :wall) else fired_sent_at end,
  cleared_sent_at = case when :event = 'cleared' then coalesce(cleared_sent_at, :wall) else cleared_sent_at end
where id = :id
