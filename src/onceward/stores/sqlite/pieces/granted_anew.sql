-- The key is granted to whoever asks, for this work and from now on.
fingerprint = excluded.fingerprint,
owner = excluded.owner,
on_crash = excluded.on_crash,
claimed_at = excluded.claimed_at,
updated_at = excluded.updated_at,
until_at = excluded.until_at,
until_boot = excluded.until_boot,
until_seconds = excluded.until_seconds
