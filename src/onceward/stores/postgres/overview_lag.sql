-- Return for how long the oldest message waits that nobody has processed; null when none does.
select greatest(0, extract(epoch from onceward_now()) - min(waiting_since))::float8
from onceward_measures where waiting_since is not null
