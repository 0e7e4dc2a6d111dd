-- How a key stands as of now: silence after the lease, and lives that are over, are told apart here.
case
  when state = 'running' and until_boot = :boot and :now < until_seconds then 'running'
  when state = 'running' and on_crash = 'rerun' then 'abandoned'
  when state = 'running' then 'ambiguous'
  when state = 'ambiguous' or until_at is null then state
  when case
    when until_boot = :boot then :now >= until_seconds + 2592000
    else :wall >= strftime('%Y-%m-%dT%H:%M:%fZ', until_at, '+30 days')
  end then 'gone'
  when state = 'free' then 'free'
  when case when until_boot = :boot then :now < until_seconds else :wall < until_at end then state
  else 'expired'
end
