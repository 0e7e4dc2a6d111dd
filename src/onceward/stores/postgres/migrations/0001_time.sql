-- The one function that everything of ours asks for the time; tests put another in its place.
create function onceward_now() returns timestamptz
  language sql volatile
  as $$ select clock_timestamp() $$;
