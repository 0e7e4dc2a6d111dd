-- Whether a key may be granted: it is free, abandoned, the owner's own, or forgotten by now.
(
  (outcome.fingerprint is null or outcome.fingerprint = excluded.fingerprint)
  and case
    when outcome.state = 'free' then true
    when outcome.state <> 'running' then false
    when outcome.until_boot = :boot and :now < outcome.until_seconds
      then outcome.owner = excluded.owner
    else outcome.on_crash = 'rerun'
  end
)
or (
  outcome.state <> 'running' and outcome.state <> 'ambiguous'
  and case
    when outcome.until_boot = :boot then :now >= outcome.until_seconds + 2592000
    else :wall >= strftime('%Y-%m-%dT%H:%M:%fZ', outcome.until_at, '+30 days')
  end
)
