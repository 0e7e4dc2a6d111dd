-- In pieces: number the keys of before, the oldest first, a few in a commit, so that nobody waits long for one.
do $$
  declare
    _old record;
    _count bigint := 0;
  begin
    for _old in
      select scope, key from onceward_outcomes where sequence is null order by claimed_at, scope, key
    loop
      if _count % 200 = 0 then
        commit;
        set local lock_timeout = '500ms';
      end if;
      _count := _count + 1;
      update onceward_outcomes set sequence = nextval('onceward_outcomes_before')
        where scope = _old.scope and key = _old.key and sequence is null;
    end loop;
  end
$$;
