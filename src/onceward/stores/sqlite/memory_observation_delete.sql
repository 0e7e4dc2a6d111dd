-- Delete observations. Rows are the id of an observation and the change that deletes it.
update memory_observations
set deleted_by = r.value ->> '$.change'
from json_each(:rows) as r
where memory_observations.id = r.value ->> '$.id'
