-- Count what is parked in the lines of these keys, each given with its cursor.
select line.value ->> 0 as cursor_name, line.value ->> 1 as key, count(parked.id)
from json_each(:lines) as line
left join onceward_parked as parked
  on parked.cursor_name = line.value ->> 0 and parked.key = line.value ->> 1 and not parked.alone
group by 1, 2
