-- Return the oldest transaction that may still add rows, of any database here: who, how, for how long.
select who, state, seconds from (
  select 'pid ' || pid || ' in ' || coalesce(datname, '?') as who, coalesce(state, 'unknown') as state,
    extract(epoch from onceward_now() - xact_start)::float8 as seconds, age(backend_xid) as age
  from pg_stat_activity where backend_xid is not null
  union all
  select 'prepared transaction ' || gid || ' in ' || database, 'prepared',
    extract(epoch from onceward_now() - prepared)::float8, age(transaction)
  from pg_prepared_xacts
) as found
order by age desc limit 1
