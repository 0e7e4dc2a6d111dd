-- Let deleted observations be there again. Rows are entity_id and fingerprint.
update memory_observations
set deleted_by = null
from json_each(:rows) as r
where memory_observations.entity_id = r.value ->> '$.entity_id'
  and memory_observations.fingerprint = r.value ->> '$.fingerprint'
  and memory_observations.deleted_by is not null
returning memory_observations.id, memory_observations.entity_id, memory_observations.fingerprint
