-- Note what was told of an alert.
update onceward_alerts set
  fired_sent_at = case when :event::text = 'fired' then coalesce(fired_sent_at, onceward_now()) else fired_sent_at end,
  cleared_sent_at = case when :event::text = 'cleared' then coalesce(cleared_sent_at, onceward_now())
    else cleared_sent_at end
where id = :id
