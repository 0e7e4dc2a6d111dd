-- Count what is parked in the lines of these keys, each given with its cursor.
select line ->> 0 as cursor_name, line ->> 1 as key, count(parked.id)
from jsonb_array_elements(:lines::jsonb) as line
left join onceward_parked as parked
  on parked.cursor_name = line ->> 0 and parked.key = line ->> 1 and not parked.alone
group by 1, 2
