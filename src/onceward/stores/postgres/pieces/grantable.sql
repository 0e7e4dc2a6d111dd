-- Whether a key may be granted: it is free, abandoned, the owner's own, or forgotten by now.
(
  (outcome.fingerprint is null or outcome.fingerprint = excluded.fingerprint)
  and case
    when outcome.state = 'free' then true
    when outcome.state <> 'running' then false
    when onceward_now() < outcome.until_at then outcome.owner = excluded.owner
    else outcome.on_crash = 'rerun'
  end
)
or (
  outcome.state <> 'running' and outcome.state <> 'ambiguous'
  and onceward_now() >= outcome.until_at + interval '30 days'
)
