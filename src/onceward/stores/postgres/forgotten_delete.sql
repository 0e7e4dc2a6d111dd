-- Forget for good.
delete from onceward_forgotten where id in (select value::bigint from jsonb_array_elements_text(:ids::jsonb))
