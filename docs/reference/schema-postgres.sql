-- Everything the migrations make, in one place, to be read.

CREATE FUNCTION public.memory_find(question tsquery, top bigint, ranges json, is_begun boolean, most bigint) RETURNS TABLE(id bigint, entity_id bigint, observation_id bigint)
    LANGUAGE plpgsql STABLE ROWS 20
    AS $$
  begin
    if is_begun and ranges is null then
      -- The frequency of a prefix is unknown, so all matches are found by the index of words.
      return query
        with found as materialized (
          select d.id, d.entity_id, d.observation_id from memory_docs as d where d.words @@ question and d.id < top)
        select f.id, f.entity_id, f.observation_id from found as f order by f.id desc limit most;
    elsif ranges is null then
      return query execute format(
        'select d.id, d.entity_id, d.observation_id from memory_docs as d'
        ' where d.words @@ %L::tsquery and d.id < %s order by d.id desc limit %s', question, top, most);
    else
      return query execute format(
        'select d.id, d.entity_id, d.observation_id from memory_docs as d'
        ' join memory_entities as e on e.id = d.entity_id'
        ' where d.words @@ %L::tsquery and d.id < %s and exists ('
        '   select from json_to_recordset(%L::json) as r (low text, high text)'
        '   where e.name >= r.low collate "C" and e.name < r.high collate "C")'
        ' order by d.id desc limit %s', question, top, ranges, most);
    end if;
  end
  $$;

CREATE FUNCTION public.onceward_count(_kind text, _names text[], _by integer) RETURNS void
    LANGUAGE plpgsql
    AS $$
    begin
      insert into onceward_counts as counted (kind, name, number)
        select _kind, each, _by * count(*) from unnest(_names) as each group by each order by each
        on conflict (kind, name) do update set number = counted.number + excluded.number;
      if _by < 0 then
        delete from onceward_counts where kind = _kind and name = any (_names) and number = 0;
      end if;
    end
  $$;

CREATE FUNCTION public.onceward_count_dead() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
    begin
      if tg_op <> 'DELETE' then
        perform onceward_count('dead', array(select cursor_name from after where state = 'dead'), 1);
      end if;
      if tg_op <> 'INSERT' then
        perform onceward_count('dead', array(select cursor_name from before where state = 'dead'), -1);
      end if;
      return null;
    end
  $$;

CREATE FUNCTION public.onceward_count_parked() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
    begin
      perform onceward_count('parked', array(select cursor_name from changed),
        case when tg_op = 'INSERT' then 1 else -1 end);
      return null;
    end
  $$;

CREATE FUNCTION public.onceward_now() RETURNS timestamp with time zone
    LANGUAGE sql
    AS $$ select clock_timestamp() $$;

CREATE TABLE public.cursor_positions (
    cursor_name text NOT NULL,
    last_position text,
    last_processed_at timestamp with time zone DEFAULT now(),
    lease_owner text,
    lease_expires_at timestamp with time zone,
    error_count integer DEFAULT 0,
    paused boolean DEFAULT false,
    metadata jsonb DEFAULT '{}'::jsonb,
    lease_epoch bigint DEFAULT 0 NOT NULL,
    steal_count bigint DEFAULT 0 NOT NULL,
    processed_count bigint DEFAULT 0 NOT NULL,
    rules_version integer DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT public.onceward_now() NOT NULL,
    updated_at timestamp with time zone DEFAULT public.onceward_now() NOT NULL
);

CREATE FUNCTION public.onceward_cursor_acquire(_name text, _worker text, _seconds double precision, _version integer) RETURNS SETOF public.cursor_positions
    LANGUAGE plpgsql
    AS $$
    declare
      old cursor_positions;
      steals integer;
    begin
      select * into old from cursor_positions where cursor_name = _name;
      if not found then
        insert into cursor_positions (cursor_name, last_processed_at, rules_version)
          values (_name, onceward_now(), _version)
          on conflict do nothing;
      elsif old.paused or (onceward_cursor_is_held(old) and old.lease_owner <> _worker) then
        return;
      end if;
      old := onceward_cursor_lock(_name);
      if old.paused or (onceward_cursor_is_held(old) and old.lease_owner <> _worker) then
        return;
      end if;
      perform onceward_cursor_end_marked(_name);
      steals := (old.lease_owner is not null and old.lease_owner <> _worker)::integer;
      return query update cursor_positions set
          lease_owner = _worker,
          lease_expires_at = onceward_now() + make_interval(secs => _seconds),
          lease_epoch = lease_epoch + 1,
          steal_count = steal_count + steals,
          updated_at = onceward_now()
        where cursor_name = _name
        returning *;
      if steals > 0 then
        insert into cursor_history
          (cursor_name, kind, actor, reason, from_position, to_position, epoch)
          values (_name, 'steal', _worker, 'the lease of ' || old.lease_owner || ' expired',
            old.last_position, old.last_position, old.lease_epoch + 1);
      end if;
    end
  $$;

CREATE FUNCTION public.onceward_cursor_checkpoint(_name text, _worker text, _epoch bigint, _position text, _count bigint, _seconds double precision) RETURNS void
    LANGUAGE plpgsql
    AS $$
    declare
      _now timestamptz := onceward_now();
    begin
      update cursor_positions set
          last_position = _position,
          last_processed_at = _now,
          error_count = 0,
          processed_count = processed_count + _count,
          lease_expires_at = case
            when paused or lease_expires_at > _now + make_interval(secs => 0.95 * _seconds)
              then lease_expires_at
            else _now + make_interval(secs => _seconds) end,
          updated_at = _now
        where cursor_name = _name and lease_owner = _worker and lease_epoch = _epoch;
      if not found then
        perform onceward_lease_lost(_name, _epoch);
      end if;
    end
  $$;

CREATE FUNCTION public.onceward_cursor_end_marked(_name text) RETURNS void
    LANGUAGE plpgsql
    AS $$
    declare
      _pid integer;
    begin
      for _attempt in 1..10 loop
        if pg_try_advisory_xact_lock(onceward_cursor_key(_name)) then
          return;
        end if;
        for _pid in
          select pid from pg_locks
            where locktype = 'advisory' and objsubid = 1 and granted and pid <> pg_backend_pid()
              and database = (select oid from pg_database where datname = current_database())
              and (classid::bigint << 32 | objid::bigint) = onceward_cursor_key(_name)
        loop
          begin
            perform pg_terminate_backend(_pid, 1000);
          exception when insufficient_privilege then
            return;
          end;
        end loop;
      end loop;
    end
  $$;

CREATE FUNCTION public.onceward_cursor_guard(_name text, _worker text, _epoch bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
    begin
      perform pg_advisory_xact_lock_shared(onceward_cursor_key(_name));
      perform 1 from cursor_positions
        where cursor_name = _name and lease_owner = _worker and lease_epoch = _epoch
        for key share;
      if not found then
        perform onceward_lease_lost(_name, _epoch);
      end if;
    end
  $$;

CREATE FUNCTION public.onceward_cursor_is_held(held public.cursor_positions) RETURNS boolean
    LANGUAGE sql
    AS $$
    select held.lease_owner is not null
      and held.lease_expires_at is not null
      and held.lease_expires_at >= onceward_now()
  $$;

CREATE FUNCTION public.onceward_cursor_key(_name text) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    AS $$ select hashtextextended('onceward cursor ' || _name, 0) $$;

CREATE FUNCTION public.onceward_cursor_lock(_name text) RETURNS public.cursor_positions
    LANGUAGE plpgsql
    SET lock_timeout TO '1s'
    AS $$
    declare
      locked cursor_positions;
    begin
      begin
        select * into locked from cursor_positions where cursor_name = _name for update;
      exception when lock_not_available then
        perform pg_terminate_backend(pid, 5000)
          from pg_locks
          where locktype = 'advisory' and objsubid = 1 and granted and pid <> pg_backend_pid()
            and database = (select oid from pg_database where datname = current_database())
            and (classid::bigint << 32 | objid::bigint) = onceward_cursor_key(_name);
        select * into locked from cursor_positions where cursor_name = _name for update;
      end;
      return locked;
    end
  $$;

CREATE FUNCTION public.onceward_cursor_mark(_name text, _worker text, _epoch bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
    begin
      perform pg_advisory_xact_lock_shared(onceward_cursor_key(_name));
      perform 1 from cursor_positions
        where cursor_name = _name and lease_owner = _worker and lease_epoch = _epoch;
      if not found then
        perform onceward_lease_lost(_name, _epoch);
      end if;
    end
  $$;

CREATE FUNCTION public.onceward_dead_delivery() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
    begin
      update dispatch_deliveries
        set state = new.state, last_seq = new.last_seq, ended_at = new.changed_at
        where id = new.delivery_id and state = 'dead';
      return null;
    end
  $$;

CREATE FUNCTION public.onceward_lease_lost(_name text, _epoch bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
    begin
      raise exception 'the lease of cursor % is lost', _name using
        errcode = 'OW001',
        detail = json_build_object(
          'cursor', _name,
          'held_epoch', _epoch,
          'current_epoch', (select lease_epoch from cursor_positions where cursor_name = _name)
        )::text;
    end
  $$;

CREATE FUNCTION public.onceward_note_grant() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
    declare
      _now timestamptz := onceward_now();
    begin
      if tg_op = 'UPDATE' then
        update onceward_grants set
            ended_at = _now,
            ending = case
              when new.lease_owner is null and new.lease_epoch > old.lease_epoch then 'moved'
              when new.lease_owner is null or new.lease_owner = old.lease_owner then 'released'
              else 'stolen'
            end,
            expired_at = case
              when new.lease_owner <> old.lease_owner and old.lease_expires_at is not null
                then least(old.lease_expires_at, _now)
            end
          where id = (select max(id) from onceward_grants where cursor_name = new.cursor_name)
            and ended_at is null;
      end if;
      if new.lease_owner is not null then
        insert into onceward_grants (cursor_name, epoch, worker, granted_at)
          values (new.cursor_name, new.lease_epoch, new.lease_owner, _now);
      end if;
      return null;
    end
  $$;

CREATE FUNCTION public.onceward_retry_sequence_next(_name text, _is_worker boolean) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
    declare
      given bigint;
    begin
      if _is_worker then
        perform pg_advisory_xact_lock_shared(onceward_cursor_key(_name));
        perform 1 from cursor_positions where cursor_name = _name for key share;
      end if;
      insert into onceward_retry_sequences as s (cursor_name, last_sequence) values (_name, 1)
        on conflict (cursor_name) do update set last_sequence = s.last_sequence + 1
        returning s.last_sequence into given;
      return given;
    end
  $$;

CREATE FUNCTION public.onceward_text(moment timestamp with time zone) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $$ select to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') $$;

CREATE FUNCTION public.onceward_time_text(moment timestamp with time zone) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $$ select to_char(moment at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') $$;

CREATE TABLE public.cursor_history (
    id bigint NOT NULL,
    cursor_name text NOT NULL,
    kind text NOT NULL,
    happened_at timestamp with time zone DEFAULT public.onceward_now() NOT NULL,
    actor text NOT NULL,
    reason text NOT NULL,
    from_position text,
    to_position text,
    epoch bigint NOT NULL,
    undoes bigint,
    CONSTRAINT cursor_history_kind_check CHECK ((kind = ANY (ARRAY['seek'::text, 'pause'::text, 'resume'::text, 'steal'::text, 'rollback'::text, 'migration'::text, 'undo'::text])))
);

ALTER TABLE public.cursor_history ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.cursor_history_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.dispatch_deliveries (
    id bigint NOT NULL,
    group_name text NOT NULL,
    batch_number bigint NOT NULL,
    state text NOT NULL,
    attempt integer NOT NULL,
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL,
    agent text,
    error text,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT dispatch_deliveries_state_check CHECK ((state = ANY (ARRAY['running'::text, 'done'::text, 'kept'::text, 'rolled back'::text, 'dead'::text, 'redriven'::text, 'dropped'::text])))
);

ALTER TABLE public.dispatch_deliveries ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.dispatch_deliveries_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.dispatch_groups (
    name text NOT NULL,
    channel text NOT NULL,
    command text NOT NULL,
    trigger_kind text NOT NULL,
    trigger_word text NOT NULL,
    workdir text,
    idle_seconds double precision NOT NULL,
    hard_seconds double precision NOT NULL,
    is_paused boolean DEFAULT false NOT NULL,
    is_nudged boolean DEFAULT false NOT NULL,
    called_seq bigint DEFAULT 0 NOT NULL,
    attempt_count integer DEFAULT 0 NOT NULL,
    retry_at timestamp with time zone,
    last_error text,
    agent text,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT dispatch_groups_trigger_kind_check CHECK ((trigger_kind = ANY (ARRAY['always'::text, 'prefix'::text, 'mention'::text])))
);

CREATE TABLE public.dispatch_messages (
    channel text NOT NULL,
    group_name text NOT NULL,
    id text NOT NULL,
    seq bigint NOT NULL,
    changed_seq bigint NOT NULL,
    sender bytea NOT NULL,
    body bytea NOT NULL,
    sent_at text,
    received_at timestamp with time zone NOT NULL,
    edited_at timestamp with time zone,
    redriven_count integer DEFAULT 0 NOT NULL
);

CREATE TABLE public.dispatch_outbox (
    id bigint NOT NULL,
    key text NOT NULL,
    group_name text NOT NULL,
    batch_number bigint NOT NULL,
    "position" bigint NOT NULL,
    body bytea NOT NULL,
    state text NOT NULL,
    seq bigint,
    attempt_count integer DEFAULT 0 NOT NULL,
    retry_at timestamp with time zone,
    error text,
    created_at timestamp with time zone NOT NULL,
    sent_at timestamp with time zone,
    CONSTRAINT dispatch_outbox_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'sending'::text, 'sent'::text, 'maybe sent'::text, 'failed'::text, 'cancelled'::text])))
);

ALTER TABLE public.dispatch_outbox ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.dispatch_outbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.memory_changes (
    id bigint NOT NULL,
    action text NOT NULL,
    entity_id bigint NOT NULL,
    observation_id bigint,
    relation_id bigint,
    source text NOT NULL,
    run text,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT memory_changes_action_check CHECK ((action = ANY (ARRAY['deleted'::text, 'restored'::text])))
);

ALTER TABLE public.memory_changes ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.memory_changes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.memory_docs (
    id bigint NOT NULL,
    entity_id bigint NOT NULL,
    observation_id bigint,
    words tsvector NOT NULL
);

ALTER TABLE public.memory_docs ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.memory_docs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.memory_entities (
    id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    entity_type text NOT NULL,
    source text NOT NULL,
    run text,
    created_at timestamp with time zone NOT NULL,
    deleted_by bigint
);

ALTER TABLE public.memory_entities ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.memory_entities_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.memory_merges (
    id bigint NOT NULL,
    merge bigint,
    source_id bigint NOT NULL,
    target_id bigint NOT NULL,
    change_id bigint NOT NULL,
    added text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    undone_at timestamp with time zone
);

ALTER TABLE public.memory_merges ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.memory_merges_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.memory_observations (
    id bigint NOT NULL,
    entity_id bigint NOT NULL,
    fingerprint text NOT NULL COLLATE pg_catalog."C",
    content text NOT NULL,
    kind text,
    ts text,
    mode text,
    repo text,
    branch text,
    source text NOT NULL,
    run text,
    created_at timestamp with time zone NOT NULL,
    deleted_by bigint
);

ALTER TABLE public.memory_observations ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.memory_observations_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.memory_relations (
    id bigint NOT NULL,
    from_id bigint NOT NULL,
    to_id bigint NOT NULL,
    relation_type text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL,
    run text,
    created_at timestamp with time zone NOT NULL,
    deleted_by bigint
);

ALTER TABLE public.memory_relations ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.memory_relations_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.onceward_alerts (
    id text NOT NULL,
    rule text NOT NULL,
    kind text NOT NULL,
    cursor_name text NOT NULL,
    state text NOT NULL,
    value double precision NOT NULL,
    threshold double precision NOT NULL,
    pending_at timestamp with time zone NOT NULL,
    fired_at timestamp with time zone,
    fired_sent_at timestamp with time zone,
    cleared_at timestamp with time zone,
    cleared_sent_at timestamp with time zone,
    CONSTRAINT onceward_alerts_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'firing'::text, 'cleared'::text])))
);

CREATE TABLE public.onceward_attempts (
    cursor_name text NOT NULL,
    "position" text NOT NULL,
    sequence bigint NOT NULL,
    attempt integer NOT NULL,
    due_at timestamp with time zone NOT NULL,
    failures jsonb NOT NULL,
    first_failed_at timestamp with time zone NOT NULL,
    CONSTRAINT onceward_attempts_attempt_check CHECK ((attempt > 0))
);

CREATE TABLE public.onceward_audit (
    id bigint NOT NULL,
    happened_at timestamp with time zone NOT NULL,
    actor text NOT NULL,
    via text NOT NULL,
    action text NOT NULL,
    target text NOT NULL,
    request_id text,
    outcome text NOT NULL,
    details text NOT NULL,
    result text NOT NULL,
    CONSTRAINT onceward_audit_outcome_check CHECK ((outcome = ANY (ARRAY['done'::text, 'refused'::text]))),
    CONSTRAINT onceward_audit_via_check CHECK ((via = ANY (ARRAY['console'::text, 'cli'::text])))
);

ALTER TABLE public.onceward_audit ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.onceward_audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.onceward_counts (
    kind text NOT NULL,
    name text NOT NULL,
    number bigint NOT NULL,
    CONSTRAINT onceward_counts_kind_check CHECK ((kind = ANY (ARRAY['parked'::text, 'dead'::text])))
);

CREATE TABLE public.onceward_dead (
    id bigint NOT NULL,
    source text DEFAULT 'worker'::text NOT NULL,
    cursor_name text NOT NULL,
    "position" text NOT NULL,
    sequence bigint NOT NULL,
    key text,
    alone boolean NOT NULL,
    raw bytea NOT NULL,
    state text NOT NULL,
    error_type text NOT NULL,
    error_message text NOT NULL,
    error_trace text NOT NULL,
    attempt_count integer NOT NULL,
    failures jsonb NOT NULL,
    first_failed_at timestamp with time zone NOT NULL,
    dead_at timestamp with time zone NOT NULL,
    redrive_count integer DEFAULT 0 NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    changed_by text DEFAULT ''::text NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    group_name text,
    first_seq bigint,
    last_seq bigint,
    delivery_id bigint,
    CONSTRAINT onceward_dead_check CHECK (((source = ANY (ARRAY['worker'::text, 'chat'::text])) AND ((source = 'chat'::text) = (delivery_id IS NOT NULL)))),
    CONSTRAINT onceward_dead_state_check CHECK ((state = ANY (ARRAY['dead'::text, 'redriven'::text, 'dropped'::text])))
);

ALTER TABLE public.onceward_dead ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.onceward_dead_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.onceward_discarded (
    id bigint NOT NULL,
    history_id bigint NOT NULL,
    cursor_name text NOT NULL,
    "position" text NOT NULL,
    sequence bigint NOT NULL,
    key text,
    alone boolean NOT NULL,
    raw bytea,
    attempt integer NOT NULL,
    due_at timestamp with time zone,
    failures jsonb NOT NULL,
    first_failed_at timestamp with time zone,
    parked_at timestamp with time zone
);

ALTER TABLE public.onceward_discarded ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.onceward_discarded_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.onceward_dual_arrivals (
    dual_name text NOT NULL,
    group_name text NOT NULL,
    last_arrived bigint NOT NULL
);

CREATE TABLE public.onceward_dual_batches (
    dual_name text NOT NULL,
    group_name text NOT NULL,
    number bigint NOT NULL,
    previous_position bigint NOT NULL,
    "position" bigint NOT NULL,
    output_position bigint,
    items text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    CONSTRAINT onceward_dual_batches_check CHECK (("position" > previous_position)),
    CONSTRAINT onceward_dual_batches_check1 CHECK (((output_position >= previous_position) AND (output_position <= "position")))
);

CREATE TABLE public.onceward_dual_counters (
    dual_name text NOT NULL,
    last_sequence bigint NOT NULL
);

CREATE TABLE public.onceward_dual_groups (
    dual_name text NOT NULL,
    group_name text NOT NULL,
    processed_position bigint DEFAULT 0 NOT NULL,
    last_batch bigint DEFAULT 0 NOT NULL,
    updated_at timestamp with time zone NOT NULL
);

CREATE TABLE public.onceward_dual_reads (
    dual_name text NOT NULL,
    read_position bigint NOT NULL,
    updated_at timestamp with time zone NOT NULL
);

CREATE TABLE public.onceward_effects (
    scope text NOT NULL,
    key text NOT NULL,
    name text NOT NULL,
    state text NOT NULL,
    fence bigint NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    result text,
    failure text,
    note text,
    CONSTRAINT onceward_effects_state_check CHECK ((state = ANY (ARRAY['intended'::text, 'done'::text, 'failed'::text, 'ambiguous'::text, 'free'::text])))
);

CREATE TABLE public.onceward_grants (
    id bigint NOT NULL,
    cursor_name text NOT NULL,
    epoch bigint NOT NULL,
    worker text NOT NULL,
    granted_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    ending text,
    expired_at timestamp with time zone,
    CONSTRAINT onceward_grants_ending_check CHECK ((ending = ANY (ARRAY['released'::text, 'stolen'::text, 'moved'::text])))
);

ALTER TABLE public.onceward_grants ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.onceward_grants_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.onceward_measures (
    cursor_name text NOT NULL,
    "position" text,
    lag_messages bigint,
    lag_seconds double precision,
    oldest_at timestamp with time zone,
    held_back_by text,
    processed_count bigint NOT NULL,
    rate_per_minute double precision,
    measured_at timestamp with time zone NOT NULL,
    waiting_since double precision GENERATED ALWAYS AS (
CASE
    WHEN (COALESCE(lag_messages, (1)::bigint) > 0) THEN ((EXTRACT(epoch FROM (measured_at AT TIME ZONE 'UTC'::text)))::double precision - lag_seconds)
    ELSE NULL::double precision
END) STORED
);

CREATE TABLE public.onceward_migrations (
    number integer NOT NULL,
    name text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

CREATE TABLE public.onceward_outcomes (
    scope text NOT NULL,
    key text NOT NULL,
    fingerprint text,
    state text NOT NULL,
    fence bigint NOT NULL,
    owner text NOT NULL,
    on_crash text NOT NULL,
    claimed_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    until_at timestamp with time zone,
    result text,
    failure text,
    note text,
    sequence bigint,
    CONSTRAINT onceward_outcomes_on_crash_check CHECK ((on_crash = ANY (ARRAY['ambiguous'::text, 'rerun'::text]))),
    CONSTRAINT onceward_outcomes_state_check CHECK ((state = ANY (ARRAY['running'::text, 'done'::text, 'failed'::text, 'ambiguous'::text, 'free'::text, 'expired'::text])))
);

CREATE SEQUENCE public.onceward_outcomes_arrival
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE public.onceward_outcomes_arrival OWNED BY public.onceward_outcomes.sequence;

CREATE TABLE public.onceward_parked (
    id bigint NOT NULL,
    cursor_name text NOT NULL,
    "position" text NOT NULL,
    sequence bigint NOT NULL,
    key text,
    alone boolean NOT NULL,
    is_head boolean NOT NULL,
    raw bytea NOT NULL,
    attempt integer NOT NULL,
    due_at timestamp with time zone,
    failures jsonb NOT NULL,
    first_failed_at timestamp with time zone,
    parked_at timestamp with time zone NOT NULL,
    CONSTRAINT onceward_parked_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT onceward_parked_check CHECK ((alone OR (key IS NOT NULL))),
    CONSTRAINT onceward_parked_check1 CHECK ((is_head OR (NOT alone)))
);

ALTER TABLE public.onceward_parked ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.onceward_parked_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.onceward_rejected_writes (
    id bigint NOT NULL,
    cursor_name text NOT NULL,
    happened_at timestamp with time zone NOT NULL,
    worker text NOT NULL,
    epoch bigint NOT NULL,
    current_epoch bigint,
    current_owner text,
    what text NOT NULL
);

ALTER TABLE public.onceward_rejected_writes ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.onceward_rejected_writes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.onceward_retry_sequences (
    cursor_name text NOT NULL,
    last_sequence bigint NOT NULL
);

CREATE TABLE public.onceward_samples (
    cursor_name text NOT NULL,
    taken_at timestamp with time zone NOT NULL,
    "position" text,
    processed_count bigint NOT NULL,
    lag_messages bigint,
    lag_seconds double precision
);

CREATE TABLE public.onceward_workers (
    worker text NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    started_at timestamp with time zone NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    stopped_at timestamp with time zone,
    consumers text NOT NULL,
    version text NOT NULL
);

CREATE VIEW public.router_state AS
 SELECT 'last_timestamp'::text AS key,
    NULL::text AS group_name,
    ( SELECT COALESCE(m.sent_at, public.onceward_time_text(m.received_at)) AS "coalesce"
           FROM public.dispatch_messages m
          WHERE (m.seq <= r.read_position)
          ORDER BY m.seq DESC
         LIMIT 1) AS value
   FROM public.onceward_dual_reads r
  WHERE (r.dual_name = 'dispatch'::text)
UNION ALL
 SELECT 'last_agent_timestamp'::text AS key,
    g.group_name,
    ( SELECT COALESCE(m.sent_at, public.onceward_time_text(m.received_at)) AS "coalesce"
           FROM public.dispatch_messages m
          WHERE ((m.group_name = g.group_name) AND (m.seq <= g.processed_position))
          ORDER BY m.seq DESC
         LIMIT 1) AS value
   FROM public.onceward_dual_groups g
  WHERE (g.dual_name = 'dispatch'::text);

ALTER TABLE ONLY public.onceward_outcomes ALTER COLUMN sequence SET DEFAULT nextval('public.onceward_outcomes_arrival'::regclass);

ALTER TABLE ONLY public.cursor_history
    ADD CONSTRAINT cursor_history_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.cursor_positions
    ADD CONSTRAINT cursor_positions_pkey PRIMARY KEY (cursor_name);

ALTER TABLE ONLY public.dispatch_deliveries
    ADD CONSTRAINT dispatch_deliveries_group_name_batch_number_key UNIQUE (group_name, batch_number);

ALTER TABLE ONLY public.dispatch_deliveries
    ADD CONSTRAINT dispatch_deliveries_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.dispatch_groups
    ADD CONSTRAINT dispatch_groups_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.dispatch_messages
    ADD CONSTRAINT dispatch_messages_pkey PRIMARY KEY (channel, group_name, id);

ALTER TABLE ONLY public.dispatch_messages
    ADD CONSTRAINT dispatch_messages_seq_key UNIQUE (seq);

ALTER TABLE ONLY public.dispatch_outbox
    ADD CONSTRAINT dispatch_outbox_key_key UNIQUE (key);

ALTER TABLE ONLY public.dispatch_outbox
    ADD CONSTRAINT dispatch_outbox_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.dispatch_outbox
    ADD CONSTRAINT dispatch_outbox_seq_key UNIQUE (seq);

ALTER TABLE ONLY public.memory_changes
    ADD CONSTRAINT memory_changes_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.memory_docs
    ADD CONSTRAINT memory_docs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.memory_entities
    ADD CONSTRAINT memory_entities_name_key UNIQUE (name);

ALTER TABLE ONLY public.memory_entities
    ADD CONSTRAINT memory_entities_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.memory_merges
    ADD CONSTRAINT memory_merges_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.memory_observations
    ADD CONSTRAINT memory_observations_entity_id_fingerprint_key UNIQUE (entity_id, fingerprint);

ALTER TABLE ONLY public.memory_observations
    ADD CONSTRAINT memory_observations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.memory_relations
    ADD CONSTRAINT memory_relations_from_id_to_id_relation_type_key UNIQUE (from_id, to_id, relation_type);

ALTER TABLE ONLY public.memory_relations
    ADD CONSTRAINT memory_relations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.onceward_alerts
    ADD CONSTRAINT onceward_alerts_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.onceward_attempts
    ADD CONSTRAINT onceward_attempts_pkey PRIMARY KEY (cursor_name, "position");

ALTER TABLE ONLY public.onceward_audit
    ADD CONSTRAINT onceward_audit_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.onceward_counts
    ADD CONSTRAINT onceward_counts_pkey PRIMARY KEY (kind, name);

ALTER TABLE ONLY public.onceward_dead
    ADD CONSTRAINT onceward_dead_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.onceward_dead
    ADD CONSTRAINT onceward_dead_source_cursor_name_position_key UNIQUE (source, cursor_name, "position");

ALTER TABLE ONLY public.onceward_discarded
    ADD CONSTRAINT onceward_discarded_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.onceward_dual_arrivals
    ADD CONSTRAINT onceward_dual_arrivals_pkey PRIMARY KEY (dual_name, group_name);

ALTER TABLE ONLY public.onceward_dual_batches
    ADD CONSTRAINT onceward_dual_batches_pkey PRIMARY KEY (dual_name, group_name);

ALTER TABLE ONLY public.onceward_dual_counters
    ADD CONSTRAINT onceward_dual_counters_pkey PRIMARY KEY (dual_name);

ALTER TABLE ONLY public.onceward_dual_groups
    ADD CONSTRAINT onceward_dual_groups_pkey PRIMARY KEY (dual_name, group_name);

ALTER TABLE ONLY public.onceward_dual_reads
    ADD CONSTRAINT onceward_dual_reads_pkey PRIMARY KEY (dual_name);

ALTER TABLE ONLY public.onceward_effects
    ADD CONSTRAINT onceward_effects_pkey PRIMARY KEY (scope, key, name);

ALTER TABLE ONLY public.onceward_grants
    ADD CONSTRAINT onceward_grants_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.onceward_measures
    ADD CONSTRAINT onceward_measures_pkey PRIMARY KEY (cursor_name);

ALTER TABLE ONLY public.onceward_migrations
    ADD CONSTRAINT onceward_migrations_pkey PRIMARY KEY (number);

ALTER TABLE ONLY public.onceward_outcomes
    ADD CONSTRAINT onceward_outcomes_pkey PRIMARY KEY (scope, key);

ALTER TABLE ONLY public.onceward_parked
    ADD CONSTRAINT onceward_parked_cursor_name_position_key UNIQUE (cursor_name, "position");

ALTER TABLE ONLY public.onceward_parked
    ADD CONSTRAINT onceward_parked_cursor_name_sequence_key UNIQUE (cursor_name, sequence);

ALTER TABLE ONLY public.onceward_parked
    ADD CONSTRAINT onceward_parked_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.onceward_rejected_writes
    ADD CONSTRAINT onceward_rejected_writes_cursor_name_epoch_what_key UNIQUE (cursor_name, epoch, what);

ALTER TABLE ONLY public.onceward_rejected_writes
    ADD CONSTRAINT onceward_rejected_writes_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.onceward_retry_sequences
    ADD CONSTRAINT onceward_retry_sequences_pkey PRIMARY KEY (cursor_name);

ALTER TABLE ONLY public.onceward_samples
    ADD CONSTRAINT onceward_samples_pkey PRIMARY KEY (cursor_name, taken_at);

ALTER TABLE ONLY public.onceward_workers
    ADD CONSTRAINT onceward_workers_pkey PRIMARY KEY (worker);

CREATE INDEX dispatch_deliveries_running ON public.dispatch_deliveries USING btree (group_name) WHERE (state = 'running'::text);

CREATE INDEX dispatch_groups_agents ON public.dispatch_groups USING btree (name) WHERE (agent IS NOT NULL);

CREATE INDEX dispatch_groups_nudged ON public.dispatch_groups USING btree (name) WHERE is_nudged;

CREATE INDEX dispatch_messages_changed ON public.dispatch_messages USING btree (group_name, changed_seq);

CREATE INDEX dispatch_messages_group ON public.dispatch_messages USING btree (group_name, seq);

CREATE INDEX dispatch_outbox_batch ON public.dispatch_outbox USING btree (group_name, batch_number);

CREATE INDEX dispatch_outbox_group ON public.dispatch_outbox USING btree (group_name, seq);

CREATE INDEX dispatch_outbox_open ON public.dispatch_outbox USING btree (group_name, id) WHERE (state = ANY (ARRAY['pending'::text, 'sending'::text]));

CREATE INDEX idx_cursor_history_cursor_name ON public.cursor_history USING btree (cursor_name, id);

CREATE INDEX idx_cursor_history_passing ON public.cursor_history USING btree (happened_at) WHERE ((kind <> 'seek'::text) AND (kind <> 'undo'::text));

CREATE INDEX idx_cursor_history_steals ON public.cursor_history USING btree (happened_at) WHERE (kind = 'steal'::text);

CREATE INDEX idx_cursor_history_undoes ON public.cursor_history USING btree (undoes) WHERE (undoes IS NOT NULL);

CREATE INDEX idx_cursor_positions_lease_expires_at ON public.cursor_positions USING btree (lease_expires_at);

CREATE INDEX memory_changes_entity ON public.memory_changes USING btree (entity_id);

CREATE INDEX memory_changes_relation ON public.memory_changes USING btree (relation_id) WHERE (relation_id IS NOT NULL);

CREATE INDEX memory_docs_entity ON public.memory_docs USING btree (entity_id, observation_id);

CREATE INDEX memory_docs_words ON public.memory_docs USING gin (words) WITH (fastupdate=off);

CREATE INDEX memory_merges_merge ON public.memory_merges USING btree (merge) WHERE (merge IS NOT NULL);

CREATE INDEX memory_merges_target ON public.memory_merges USING btree (target_id);

CREATE INDEX memory_observations_deleted ON public.memory_observations USING btree (deleted_by) WHERE (deleted_by IS NOT NULL);

CREATE INDEX memory_relations_deleted ON public.memory_relations USING btree (deleted_by) WHERE (deleted_by IS NOT NULL);

CREATE INDEX memory_relations_to ON public.memory_relations USING btree (to_id);

CREATE INDEX onceward_alerts_cleared ON public.onceward_alerts USING btree (cleared_at) WHERE (state = 'cleared'::text);

CREATE UNIQUE INDEX onceward_alerts_open ON public.onceward_alerts USING btree (rule, cursor_name) WHERE (state <> 'cleared'::text);

CREATE INDEX onceward_alerts_unsent ON public.onceward_alerts USING btree (fired_at) WHERE ((fired_at IS NOT NULL) AND ((fired_sent_at IS NULL) OR ((cleared_at IS NOT NULL) AND (cleared_sent_at IS NULL))));

CREATE INDEX onceward_audit_request ON public.onceward_audit USING btree (request_id);

CREATE INDEX onceward_dead_by_state ON public.onceward_dead USING btree (state, cursor_name, id);

CREATE INDEX onceward_dead_lately ON public.onceward_dead USING btree (dead_at) WHERE (state = 'dead'::text);

CREATE INDEX onceward_dead_newest ON public.onceward_dead USING btree (state, id);

CREATE INDEX onceward_dead_of_group ON public.onceward_dead USING btree (group_name, last_seq) WHERE ((state = 'dead'::text) AND (group_name IS NOT NULL));

CREATE INDEX onceward_dead_settled ON public.onceward_dead USING btree (changed_at) WHERE (state <> 'dead'::text);

CREATE INDEX onceward_discarded_by_cursor ON public.onceward_discarded USING btree (cursor_name, id);

CREATE INDEX onceward_discarded_by_move ON public.onceward_discarded USING btree (history_id, id);

CREATE INDEX onceward_grants_ended ON public.onceward_grants USING btree (ended_at) WHERE (ended_at IS NOT NULL);

CREATE INDEX onceward_grants_of_cursor ON public.onceward_grants USING btree (cursor_name, id);

CREATE INDEX onceward_measures_waiting ON public.onceward_measures USING btree (waiting_since, cursor_name) WHERE (waiting_since IS NOT NULL);

CREATE INDEX onceward_outcomes_ends ON public.onceward_outcomes USING btree (state, until_at) WHERE ((until_at IS NOT NULL) AND (state <> 'running'::text) AND (state <> 'ambiguous'::text));

CREATE INDEX onceward_outcomes_open ON public.onceward_outcomes USING btree (state, sequence) WHERE ((state = 'running'::text) OR (state = 'ambiguous'::text));

CREATE UNIQUE INDEX onceward_outcomes_sequence ON public.onceward_outcomes USING btree (sequence);

CREATE INDEX onceward_parked_due ON public.onceward_parked USING btree (cursor_name, due_at NULLS FIRST, sequence) WHERE is_head;

CREATE INDEX onceward_parked_heads ON public.onceward_parked USING btree (cursor_name, sequence) WHERE is_head;

CREATE INDEX onceward_parked_lines ON public.onceward_parked USING btree (cursor_name, key, sequence) WHERE (NOT alone);

CREATE UNIQUE INDEX onceward_parked_one_head ON public.onceward_parked USING btree (cursor_name, key) WHERE (is_head AND (NOT alone));

CREATE INDEX onceward_samples_taken ON public.onceward_samples USING btree (taken_at);

CREATE INDEX onceward_workers_seen ON public.onceward_workers USING btree (seen_at);

CREATE TRIGGER onceward_dead_added AFTER INSERT ON public.onceward_dead REFERENCING NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION public.onceward_count_dead();

CREATE TRIGGER onceward_dead_changed AFTER UPDATE ON public.onceward_dead REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION public.onceward_count_dead();

CREATE TRIGGER onceward_dead_delivery AFTER UPDATE OF state, last_seq ON public.onceward_dead FOR EACH ROW WHEN (((old.state = 'dead'::text) AND (new.source = 'chat'::text) AND ((new.state <> old.state) OR (new.last_seq <> old.last_seq)))) EXECUTE FUNCTION public.onceward_dead_delivery();

CREATE TRIGGER onceward_dead_removed AFTER DELETE ON public.onceward_dead REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION public.onceward_count_dead();

CREATE TRIGGER onceward_first_granted AFTER INSERT ON public.cursor_positions FOR EACH ROW WHEN (((new.lease_owner IS NOT NULL) AND (NOT starts_with(new.cursor_name, '~'::text)))) EXECUTE FUNCTION public.onceward_note_grant();

CREATE TRIGGER onceward_granted AFTER UPDATE OF lease_owner, lease_epoch ON public.cursor_positions FOR EACH ROW WHEN ((((new.lease_owner IS DISTINCT FROM old.lease_owner) OR (new.lease_epoch <> old.lease_epoch)) AND (NOT starts_with(new.cursor_name, '~'::text)))) EXECUTE FUNCTION public.onceward_note_grant();

CREATE TRIGGER onceward_parked_added AFTER INSERT ON public.onceward_parked REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.onceward_count_parked();

CREATE TRIGGER onceward_parked_removed AFTER DELETE ON public.onceward_parked REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.onceward_count_parked();

ALTER TABLE ONLY public.cursor_history
    ADD CONSTRAINT cursor_history_undoes_fkey FOREIGN KEY (undoes) REFERENCES public.cursor_history(id);

ALTER TABLE ONLY public.memory_changes
    ADD CONSTRAINT memory_changes_entity_id_fkey FOREIGN KEY (entity_id) REFERENCES public.memory_entities(id);

ALTER TABLE ONLY public.memory_changes
    ADD CONSTRAINT memory_changes_observation_id_fkey FOREIGN KEY (observation_id) REFERENCES public.memory_observations(id);

ALTER TABLE ONLY public.memory_changes
    ADD CONSTRAINT memory_changes_relation_id_fkey FOREIGN KEY (relation_id) REFERENCES public.memory_relations(id);

ALTER TABLE ONLY public.memory_docs
    ADD CONSTRAINT memory_docs_entity_id_fkey FOREIGN KEY (entity_id) REFERENCES public.memory_entities(id);

ALTER TABLE ONLY public.memory_docs
    ADD CONSTRAINT memory_docs_observation_id_fkey FOREIGN KEY (observation_id) REFERENCES public.memory_observations(id);

ALTER TABLE ONLY public.memory_merges
    ADD CONSTRAINT memory_merges_change_id_fkey FOREIGN KEY (change_id) REFERENCES public.memory_changes(id);

ALTER TABLE ONLY public.memory_merges
    ADD CONSTRAINT memory_merges_merge_fkey FOREIGN KEY (merge) REFERENCES public.memory_merges(id);

ALTER TABLE ONLY public.memory_merges
    ADD CONSTRAINT memory_merges_source_id_fkey FOREIGN KEY (source_id) REFERENCES public.memory_entities(id);

ALTER TABLE ONLY public.memory_merges
    ADD CONSTRAINT memory_merges_target_id_fkey FOREIGN KEY (target_id) REFERENCES public.memory_entities(id);

ALTER TABLE ONLY public.memory_observations
    ADD CONSTRAINT memory_observations_entity_id_fkey FOREIGN KEY (entity_id) REFERENCES public.memory_entities(id);

ALTER TABLE ONLY public.memory_relations
    ADD CONSTRAINT memory_relations_from_id_fkey FOREIGN KEY (from_id) REFERENCES public.memory_entities(id);

ALTER TABLE ONLY public.memory_relations
    ADD CONSTRAINT memory_relations_to_id_fkey FOREIGN KEY (to_id) REFERENCES public.memory_entities(id);

ALTER TABLE ONLY public.onceward_discarded
    ADD CONSTRAINT onceward_discarded_history_id_fkey FOREIGN KEY (history_id) REFERENCES public.cursor_history(id);

ALTER TABLE ONLY public.onceward_effects
    ADD CONSTRAINT onceward_effects_scope_key_fkey FOREIGN KEY (scope, key) REFERENCES public.onceward_outcomes(scope, key) ON DELETE CASCADE;
