-- What a move took out of the line, because its cursor will read it again: kept for the undoing of a seek.
-- A row without bytes is not a parked message but the attempts of one that held its cursor.
create table onceward_forgotten (
  id bigint generated always as identity primary key,
  history_id bigint not null references cursor_history (id),
  cursor_name text not null,
  position text not null,
  sequence bigint not null,
  key text,
  alone boolean not null,
  raw bytea,
  attempt integer not null,
  due_at timestamptz,
  failures jsonb not null,
  first_failed_at timestamptz,
  parked_at timestamptz
);
create index onceward_forgotten_by_move on onceward_forgotten (history_id, id);

-- The next number of a cursor's retries; nobody else changes them before this transaction ends. Whoever works for
-- the cursor locks it first, as a move does: the other way round the two could wait for each other. It can then be
-- found as a guard can, so that a client that is frozen inside its transaction does not stop a move for ever.
create function onceward_retry_turn(_name text, _is_worker boolean) returns bigint
  language plpgsql
  as $$
    declare
      given bigint;
    begin
      if _is_worker then
        perform pg_advisory_xact_lock_shared(onceward_cursor_key(_name));
        perform 1 from cursor_positions where cursor_name = _name for key share;
      end if;
      insert into onceward_retry_turns as turn (cursor_name, last_sequence) values (_name, 1)
        on conflict (cursor_name) do update set last_sequence = turn.last_sequence + 1
        returning turn.last_sequence into given;
      return given;
    end
  $$;
