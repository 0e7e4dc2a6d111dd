-- Return for how long the oldest message waits that nobody has processed; null when none does.
select max(0.0, (julianday(:wall) - 2440587.5) * 86400.0 - min(waiting_since))
from onceward_measures where waiting_since is not null
